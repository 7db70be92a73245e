// Compiled kernels: loading a module, finding its kernels and symbols.
//
// A module is a shared library. While it is being loaded, its LABKIT_KERNEL()s call labkit::add_kernel.
// The rest is read from the file's symbol table, which has also hidden and static symbols, with their sizes.
#include "check.h"
#include "runtime.h"
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <mutex>
#include <set>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace labkit {

struct Kernel {   // as in include/labkit/launch.h
    const char *name;
    const void *function;
    void (*call)(const char *arguments);
    const lk_parameter *parameters;
    int parameter_count, packed_bytes;
    int max_threads;
    void (*loops)(const char *arguments);
    const void *loops_function;
    const char *why_fibers;
};

static std::mutex loading;
static std::vector<const Kernel *> *registered;   // by the module that is loaded now

EXPORT void add_kernel(const Kernel *kernel) {
    if (registered) registered->push_back(kernel);
}

}  // namespace labkit

struct lk_kernel {
    const labkit::Kernel *kernel;
    lk_module *module;
    std::string symbol;
    StaticShared shared{}, loops_shared{};
    double block_seconds = 0;     // last measured time of a block
};

struct lk_module {
    void *library = nullptr;
    int copy = -1;                // the file that was loaded, if it is a copy
    std::vector<lk_kernel *> kernels;
    struct Symbol { char *address; size_t bytes; };
    std::map<std::string, Symbol> symbols;
    size_t constant_bytes = 0;
    uintptr_t text_begin = UINTPTR_MAX, text_end = 0;
    StaticShared shared;
    WatchedModule watched;        // check mode
};

namespace {

// A variable's name as declared: _ZZ4convE4tile -> tile.
const char *plain_name(const char *symbol) {
    static std::set<std::string> names;
    char *demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
    std::string text = demangled ? demangled : symbol;
    free(demangled);
    size_t scope = text.rfind("::");
    return names.insert(scope == std::string::npos ? text : text.substr(scope + 2)).first->c_str();
}

#ifdef LABKIT_CHECK
// Record a variable; true: a constant.
bool watch_symbol(WatchedModule &module, uintptr_t base, const ElfW(Sym) &symbol, const ElfW(Shdr) *sections,
                  const char *names, const char *name) {
    int type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx >= SHN_LORESERVE || !symbol.st_size) return false;
    const ElfW(Shdr) &section = sections[symbol.st_shndx];
    bool guard = !strncmp(name, "_ZGV", 4);
    if (type != STT_OBJECT) return false;
    const char *address = (const char *)base + symbol.st_value;
    if (!strcmp(name, "labkit_pieces")) module.pieces = address, module.pieces_bytes = symbol.st_size;
    if (!strcmp(name, "labkit_accesses")) module.accesses = address, module.accesses_bytes = symbol.st_size;
    if (!strcmp(name, "labkit_log")) module.log = (uint64_t **)address;
    const char *place = names + section.sh_name;
    bool constant = !strncmp(place, "lk_constant", 11), variable = !strcmp(place, ".data") || !strcmp(place, ".bss");
    // The variables of the engine and of the compiler are not the kernel's.
    if (!(section.sh_flags & SHF_WRITE) || (variable && (strstr(name, "labkit_") || !strcmp(name, "completed.0")))) return false;
    Space space = constant ? constant_space : variable && !guard ? global_space : unwatched_space;
    module.variables.push_back({base + symbol.st_value, symbol.st_size, space, plain_name(name), nullptr, nullptr});
    return constant;
}
#endif

// Read from the file what the loader does not provide: symbols with sizes, sections of constants, segments.
bool read_file(const char *path, uintptr_t base, lk_module &module, std::string &error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        error = strerror(errno);
        if (file >= 0) close(file);
        return false;
    }
    size_t size = status.st_size;
    char *image = (char *)mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED) {
        error = strerror(errno);
        return false;
    }
    auto header = (const ElfW(Ehdr) *)image;
    auto segments = (const ElfW(Phdr) *)(image + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++) {
        const ElfW(Phdr) &segment = segments[i];
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X)) {
            uintptr_t begin = base + segment.p_vaddr, end = begin + segment.p_memsz;
            if (begin < module.text_begin) module.text_begin = begin;
            if (end > module.text_end) module.text_end = end;
        } else if (segment.p_type == PT_TLS) {
            module.shared.image = (const char *)base + segment.p_vaddr;
            module.shared.segment_bytes = segment.p_memsz;
            module.shared.initialized = segment.p_filesz;
            module.shared.alignment = segment.p_align;
        }
#ifdef LABKIT_CHECK
        if (segment.p_type == PT_LOAD && !(segment.p_flags & (PF_W | PF_X)))
            module.watched.variables.push_back(
                {base + segment.p_vaddr, segment.p_memsz, unwatched_space, nullptr, nullptr, nullptr});
#endif
    }
    auto sections = (const ElfW(Shdr) *)(image + header->e_shoff);
    const char *names = image + sections[header->e_shstrndx].sh_offset;
    std::map<uintptr_t, std::string> functions;
    for (int i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) &section = sections[i];
#ifndef LABKIT_CHECK   // there the sections also have red zones
        if (!strncmp(names + section.sh_name, "lk_constant", 11)) module.constant_bytes += section.sh_size;
#endif
        if (section.sh_type != SHT_SYMTAB) continue;
        const char *strings = image + sections[section.sh_link].sh_offset;
        auto symbols = (const ElfW(Sym) *)(image + section.sh_offset);
        for (size_t n = 0; n < section.sh_size / sizeof(ElfW(Sym)); n++) {
            const ElfW(Sym) &symbol = symbols[n];
            int type = ELF64_ST_TYPE(symbol.st_info);
            if (symbol.st_shndx == SHN_UNDEF) continue;
            const char *name = strings + symbol.st_name;
#ifdef LABKIT_CHECK
            if (watch_symbol(module.watched, base, symbol, sections, names, name))
                module.constant_bytes += symbol.st_size;
#endif
            if (type == STT_OBJECT) module.symbols[name] = {(char *)base + symbol.st_value, symbol.st_size};
            if (type == STT_TLS && symbol.st_size)
                module.shared.arrays.push_back(
                    {plain_name(name), name, symbol.st_value, symbol.st_size,
                     !strncmp(name, "_ZGV", 4) || !strcmp(name, "__tls_guard")});
            if (type == STT_FUNC) functions[base + symbol.st_value] = name;
        }
    }
#ifdef LABKIT_CHECK
    module.watched.path = path;
    module.watched.base = base;
#endif
    std::vector<std::string> kernels;
    for (lk_kernel *kernel : module.kernels) {
        auto it = functions.find((uintptr_t)kernel->kernel->function);
        if (it != functions.end()) kernel->symbol = it->second;
        kernels.push_back(kernel->symbol);
    }
    for (lk_kernel *kernel : module.kernels) {
        auto it = functions.find((uintptr_t)kernel->kernel->loops_function);
        kernels.push_back(it != functions.end() ? it->second : "none");
    }
    module.shared.grouped = is_grouped(image, base);
    std::vector<StaticShared> parts = place_static(module.shared, kernels);
    for (size_t n = 0, half = module.kernels.size(); n < half; n++) {
        module.kernels[n]->shared = std::move(parts[n]);
        module.kernels[n]->loops_shared = std::move(parts[half + n]);
    }
    bool redirected = redirect_shared(module.shared, image, base, error);
    munmap(image, size);
    return redirected;
}

std::string without_spaces(const char *text) {
    std::string result;
    for (; *text; text++)
        if (*text != ' ') result += *text;
    return result;
}

// A copy of a file that exists only in memory; -1 if that fails.
int copy_in_memory(const char *path) {
    int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("labkit-module", MFD_CLOEXEC);
    char buffer[1 << 16];
    ssize_t count = -1;
    if (from >= 0 && to >= 0)
        while ((count = read(from, buffer, sizeof buffer)) > 0 && write(to, buffer, count) == count) {}
    if (from >= 0) close(from);
    if (count != 0 && to >= 0) {
        close(to);
        to = -1;
    }
    return to;
}

void discard(lk_module *module) {
    for (lk_kernel *kernel : module->kernels) delete kernel;
    if (module->library) dlclose(module->library);
    if (module->copy >= 0) close(module->copy);
    delete module;
}

}  // namespace

EXPORT int lk_module_load(const char *path, lk_module **result) {
    std::lock_guard<std::mutex> lock(labkit::loading);
    // Modules find the runtime's functions only among the global symbols, so it is loaded as global.
    static void *self = [] {
        Dl_info info;
        bool known = dladdr((void *)lk_module_load, &info);
        return known ? dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) : nullptr;
    }();
    (void)self;
    lk_module *module = new lk_module;
    // The same file again is another module with its own variables, for which the loader needs another file.
    std::string file = path;
    if (void *loaded = dlopen(path, RTLD_NOW | RTLD_NOLOAD)) {
        dlclose(loaded);
        module->copy = copy_in_memory(path);
        if (module->copy >= 0) file = format("/proc/self/fd/%d", module->copy);
    }
    std::vector<const labkit::Kernel *> found;
    labkit::registered = &found;
    module->library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    labkit::registered = nullptr;
    if (!module->library) {
        std::string why = dlerror();
        discard(module);
        return set_error(LK_INVALID, "cannot load %s: %s", path, why.c_str());
    }
    for (const labkit::Kernel *kernel : found)
        module->kernels.push_back(new lk_kernel{kernel, module, kernel->name});
    link_map *map = nullptr;
    dlinfo(module->library, RTLD_DI_LINKMAP, &map);
    std::string error = "no link map";
    if (!map || !read_file(path, map->l_addr, *module, error)) {
        discard(module);
        return set_error(LK_INVALID, "cannot read %s: %s", path, error.c_str());
    }
    *result = module;
    return LK_OK;
}

EXPORT int lk_module_unload(lk_module *module) {
    wait_for_device();
    remove_symbol_ranges(module);
    discard(module);
    return LK_OK;
}

EXPORT int lk_module_kernel(lk_module *module, const char *name_or_symbol, lk_kernel **kernel) {
    std::string wanted = without_spaces(name_or_symbol);
    for (lk_kernel *candidate : module->kernels)
        if (wanted == candidate->symbol || wanted == without_spaces(candidate->kernel->name)) {
            *kernel = candidate;
            return LK_OK;
        }
    std::string known;
    for (lk_kernel *candidate : module->kernels) known += std::string(" ") + candidate->kernel->name;
    return set_error(LK_NOT_FOUND, "no kernel %s in this module, which has:%s", name_or_symbol,
                     known.empty() ? " none" : known.c_str());
}

EXPORT int lk_module_kernel_at(lk_module *module, int index, lk_kernel **kernel) {
    if (index < 0 || (size_t)index >= module->kernels.size())
        return set_error(LK_NOT_FOUND, "the module has %zu kernels", module->kernels.size());
    *kernel = module->kernels[index];
    return LK_OK;
}

EXPORT int lk_kernel_describe(lk_kernel *kernel, lk_kernel_info *info) {
    const labkit::Kernel &k = *kernel->kernel;
    *info = {k.name, kernel->symbol.c_str(), k.parameters, k.parameter_count, k.packed_bytes, k.max_threads,
             (int)kernel->shared.own, (int)kernel->shared.common, k.loops != nullptr, k.why_fibers, k.function};
    return LK_OK;
}

// A static variable's symbol is _ZL<length><name>.
EXPORT int lk_module_symbol(lk_module *module, const char *name, void **address, size_t *bytes) {
    auto it = module->symbols.find(name);
    if (it == module->symbols.end()) it = module->symbols.find(format("_ZL%zu%s", strlen(name), name));
    if (it == module->symbols.end()) return set_error(LK_NOT_FOUND, "no variable %s in this module", name);
    *address = it->second.address;
    *bytes = it->second.bytes;
    add_symbol_range(*address, *bytes, module);
    return LK_OK;
}

EXPORT size_t lk_module_constant_bytes(lk_module *module) { return module->constant_bytes; }

int describe_launch(lk_kernel *kernel, Launch &launch) {
    const lk_module &module = *kernel->module;
    launch.kernel = kernel->kernel->name;
    launch.call = kernel->kernel->call;
    launch.text_begin = module.text_begin;
    launch.text_end = module.text_end;
    launch.loops = kernel->kernel->loops;
    launch.shared = launch.loops ? &kernel->loops_shared : &kernel->shared;
    launch.fibers_shared = &kernel->shared;
    launch.block_seconds = &kernel->block_seconds;
    launch.module = &kernel->module->watched;
    launch.arguments_bytes = kernel->kernel->packed_bytes;
    return kernel->kernel->packed_bytes;
}
