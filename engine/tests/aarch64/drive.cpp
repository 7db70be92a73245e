// One launch on the engine's runtime: drive RUNTIME MODULE LAYOUT KERNEL GX GY GZ BX BY BZ SHARED ARGUMENT...
//
// With a runtime and a module alone it prints where the functions of the kernels are in the module. LAYOUT is the file that
// build.py makes of them.
// An argument is a number (an int), or the path of a file: an array, which is copied to the device and back. The kernel's
// printf goes to stdout; an error is one line on stderr, and the exit status is 1. Check mode's records go to stderr, too.
#include "abi.h"
#include <ctype.h>
#include <dlfcn.h>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

static void *runtime;
#define CALL(name) ((decltype(&::name))dlsym(runtime, #name))

static int failed(const char *why) {
    fprintf(stderr, "error: %s\n", why);
    return 1;
}

// What Python tells the runtime of a module on this machine: see native.py. Addresses in the file count from the base.
static int place(hc_module *module, size_t base, const char *path, const std::vector<hc_kernel *> &kernels,
                 const std::vector<hc_kernel_info> &infos) {
    FILE *file = fopen(path, "r");
    char kind[8], name[256];
    long a, b, c, d;
    size_t begin = 0, end = 0;
    std::vector<hc_patch> patches;
    std::vector<hc_variable> watched;
    static std::map<const void *, hc_static> statics;
    std::vector<hc_array> *arrays = nullptr;
    while (fscanf(file, "%7s", kind) == 1) {
        std::string word = kind;
        if (word == "text" && fscanf(file, "%ld %ld", &a, &b) == 2) {
            begin = base + a, end = base + b;
        } else if (word == "patch" && fscanf(file, "%ld %ld %ld", &a, &b, &c) == 3) {
            patches.push_back({(void *)(base + a), b, (int)c});
        } else if (word == "watch" && fscanf(file, "%ld %ld %ld %255s", &a, &b, &c, name) == 4) {
            watched.push_back({strcmp(name, "-") ? strdup(name) : nullptr, (void *)(base + a), (size_t)b, (int)c});
        } else if (word == "static" && fscanf(file, "%ld %ld %ld", &a, &b, &c) == 3) {
            arrays = new std::vector<hc_array>;
            arrays->reserve(b);
            statics[(void *)(base + a)] = {arrays->data(), (int)b, (size_t)c};
        } else if (word == "array" && fscanf(file, "%ld %ld %ld %ld %255s", &a, &b, &c, &d, name) == 5) {
            arrays->push_back({strdup(name), d < 0 ? nullptr : (char *)(base + d), (size_t)a, b, (int)c});
        }
    }
    fclose(file);
    for (size_t i = 0; i < kernels.size(); i++)
        CALL(hc_kernel_place)(kernels[i], &statics[infos[i].function], &statics[infos[i].loops ? infos[i].loops : infos[i].function]);
    return CALL(hc_module_place)(module, begin, end, patches.data(), patches.size(), watched.data(), watched.size());
}

int main(int count, char **words) {
    runtime = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!runtime) return failed(dlerror());
    auto error = CALL(hc_error);
    hc_module *module;
    hc_kernel *kernel = nullptr;
    size_t base;
    auto take = (size_t (*)(char *, size_t))dlsym(runtime, "hc_check_take");
    if (CALL(hc_start)(take ? 1 : 2) || CALL(hc_module_load)(words[2], &module, &base)) return failed(error());
    std::vector<hc_kernel *> kernels;
    std::vector<hc_kernel_info> infos;
    hc_kernel_info info;
    for (hc_kernel *each; !CALL(hc_module_kernel)(module, kernels.size(), &each, &info); kernels.push_back(each), infos.push_back(info)) {}
    if (count == 3) {
        for (auto &each : infos)
            for (const void *function : {each.function, each.loops})
                if (function) printf("%ld\n", (long)((size_t)function - base));
        CALL(hc_stop)();
        return 0;
    }
    if (place(module, base, words[3], kernels, infos)) return failed(error());
    words++, count--;
    for (size_t i = 0; i < infos.size(); i++)
        if (std::string(words[3]) == infos[i].name) kernel = kernels[i];
    if (!kernel) return failed("there is no such kernel");
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
        if (CALL(hc_mem_alloc)(array.bytes.size(), &array.device)) return failed(error());
        CALL(hc_memcpy)(array.device, array.bytes.data(), array.bytes.size(), nullptr, 1, "HtoD");
        packed.resize((packed.size() + 7) / 8 * 8);
        packed.append((char *)&array.device, sizeof array.device);
        arrays.push_back(array);
    }
    if (!arrays.empty()) packed.resize((packed.size() + 7) / 8 * 8);
    const unsigned own[3] = {};   // cluster
    int status = CALL(hc_launch)(kernel, grid, block, atoi(words[10]), packed.data(), packed.size(), nullptr, 0, own, 0);
    if (!status) status = CALL(hc_synchronize)(60);
    std::string why = status ? error() : "";
    char text[4096];
    while (size_t bytes = CALL(hc_printf_take)(text, sizeof text)) fwrite(text, 1, bytes, stdout);
    if (take)
        while (size_t bytes = take(text, sizeof text)) fwrite(text, 1, bytes, stderr);
    for (Array &array : arrays) {
        FILE *file = fopen(array.path, "wb");
        fwrite(array.device, 1, array.bytes.size(), file);
        fclose(file);
    }
    CALL(hc_stop)();
    fflush(stdout);
    return status ? failed(why.c_str()) : 0;
}
