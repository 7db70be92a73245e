// One launch on the engine's runtime: drive RUNTIME MODULE KERNEL GX GY GZ BX BY BZ SHARED ARGUMENT...
//
// An argument is a number (an int), or the path of a file: an array, which is copied to the device and back. The kernel's
// printf goes to stdout; an error is one line on stderr, and the exit status is 1. Check mode's records go to stderr, too.
#include "abi.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

static void *runtime;
#define CALL(name) ((decltype(&::name))dlsym(runtime, #name))

static int failed(const char *why) {
    fprintf(stderr, "error: %s\n", why);
    return 1;
}

int main(int count, char **words) {
    runtime = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!runtime) return failed(dlerror());
    auto error = CALL(lk_error);
    lk_module *module;
    lk_kernel *kernel;
    auto take = (size_t (*)(char *, size_t))dlsym(runtime, "lk_check_take");
    if (CALL(lk_start)(take ? 1 : 2) || CALL(lk_module_load)(words[2], &module) || CALL(lk_module_kernel)(module, words[3], &kernel))
        return failed(error());
    unsigned grid[3], block[3];
    for (int i = 0; i < 3; i++) grid[i] = atoi(words[4 + i]), block[i] = atoi(words[7 + i]);
    struct Array { const char *path; void *device; std::vector<char> bytes; };
    std::vector<Array> arrays;
    std::string packed;
    for (int i = 11; i < count; i++) {
        if (isdigit(words[i][0]) || words[i][0] == '-') {
            int number = atoi(words[i]);
            packed.append((char *)&number, sizeof number);
            continue;
        }
        Array array{words[i], nullptr, {}};
        FILE *file = fopen(array.path, "rb");
        for (int c; (c = getc(file)) != EOF;) array.bytes.push_back(c);
        fclose(file);
        if (CALL(lk_mem_alloc)(array.bytes.size(), &array.device)) return failed(error());
        CALL(lk_memcpy)(array.device, array.bytes.data(), array.bytes.size(), nullptr, 1, "HtoD");
        packed.resize((packed.size() + 7) / 8 * 8);
        packed.append((char *)&array.device, sizeof array.device);
        arrays.push_back(array);
    }
    if (!arrays.empty()) packed.resize((packed.size() + 7) / 8 * 8);
    int status = CALL(lk_launch)(kernel, grid, block, atoi(words[10]), packed.data(), packed.size(), nullptr);
    if (!status) status = CALL(lk_synchronize)(60);
    std::string why = status ? error() : "";
    char text[4096];
    while (size_t bytes = CALL(lk_printf_take)(text, sizeof text)) fwrite(text, 1, bytes, stdout);
    if (take)
        while (size_t bytes = take(text, sizeof text)) fwrite(text, 1, bytes, stderr);
    for (Array &array : arrays) {
        FILE *file = fopen(array.path, "wb");
        fwrite(array.device, 1, array.bytes.size(), file);
        fclose(file);
    }
    CALL(lk_stop)();
    fflush(stdout);
    return status ? failed(why.c_str()) : 0;
}
