// Compiled kernels: loading a module, and what its kernels are.
//
// A module is a shared library. While it is being loaded, its HOSTCUDA_KERNEL()s call hostcuda::add_kernel. The rest is read from
// its file by Python (hostcuda/runtime/layout.py).
#include "check.h"
#include "lock.h"
#include "runtime.h"
#include <dlfcn.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#include <fcntl.h>
#include <link.h>
#include <string>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct hc_kernel {
    hostcuda::Kernel kernel;      // a copy: the module's own can be written by its code
    hc_module *module;
    std::string name;
    const hc_static *shared = nullptr, *loops_shared = nullptr;
    double block_seconds = 0;     // last measured time of a block
};

struct hc_module {
    void *library = nullptr;
    int copy = -1;                // the file that was loaded, if it is a copy
    std::vector<hc_kernel *> kernels;
    uintptr_t text_begin = 0, text_end = 0, data_begin = 0, data_end = 0;
    uintptr_t tables_begin = 0, tables_end = 0;   // pages of addresses of functions and variables, read-only
    WatchedModule watched;        // check mode
};

static Mutex loading;
static hc_module *loaded;         // the module that is loaded now

namespace hostcuda {
// Of an overloaded kernel, "*static_cast<void (*)(int n)>(k)", "k(int n)".
static std::string readable(const std::string &name) {
    const std::string head = "*static_cast<void (*)";
    size_t end = name.rfind(">(");
    if (name.compare(0, head.size(), head) || end == std::string::npos) return name;
    return name.substr(end + 2, name.size() - end - 3) + name.substr(head.size(), end - head.size());
}

EXPORT void add_kernel(const Kernel *kernel) {
    if (loaded) loaded->kernels.push_back(new hc_kernel{*kernel, loaded, readable(kernel->name)});
}
}  // namespace hostcuda

// A copy of a file that exists only in memory; -1 if that fails.
static int copy_in_memory(const char *path) {
    int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("hostcuda-module", MFD_CLOEXEC);
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

// Find the variables and tables of a module among all that is loaded.
static int find_data(dl_phdr_info *info, size_t, void *of) {
    hc_module &module = *(hc_module *)of;
    if (info->dlpi_addr != module.watched.base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_GNU_RELRO) {
            uintptr_t page = -(uintptr_t)sysconf(_SC_PAGESIZE), begin = info->dlpi_addr + segment.p_vaddr;
            module.tables_begin = begin & page;
            module.tables_end = (begin + segment.p_memsz) & page;   // as the loader has protected them
        }
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
        module.data_begin = info->dlpi_addr + segment.p_vaddr;
        module.data_end = module.data_begin + segment.p_memsz;
    }
    return 1;
}

static void discard(hc_module *module) {
    for (hc_kernel *kernel : module->kernels) delete kernel;
    if (module->library) dlclose(module->library);
    if (module->copy >= 0) close(module->copy);
    delete module;
}

EXPORT int hc_module_load(const char *path, hc_module **result, size_t *base) {
    Lock lock(loading);
    // Modules find the runtime's functions only among the global symbols, so it is loaded as global.
    static void *self = [] {
        Dl_info info;
        bool known = dladdr((void *)hc_module_load, &info);
        return known ? dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) : nullptr;
    }();
    (void)self;
    hc_module *module = new hc_module;
    // The same file again is another module with its own variables, for which the loader needs another file.
    std::string file = path;
    if (void *already = dlopen(path, RTLD_NOW | RTLD_NOLOAD)) {
        dlclose(already);
        module->copy = copy_in_memory(path);
        if (module->copy >= 0) file = format("/proc/self/fd/%d", module->copy);
    }
    loaded = module;
    module->library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    loaded = nullptr;
    link_map *map = nullptr;
    if (!module->library || dlinfo(module->library, RTLD_DI_LINKMAP, &map)) {
        std::string why = dlerror();
        discard(module);
        return set_error(HC_INVALID, "cannot load %s: %s", path, why.c_str());
    }
    module->watched.base = *base = map->l_addr;
    dl_iterate_phdr(find_data, module);
    module->watched.path = path;
    *result = module;
    return HC_OK;
}

EXPORT int hc_module_unload(hc_module *module) {
    wait_for_device();
    remove_symbol_ranges(module);
    discard(module);
    return HC_OK;
}

EXPORT int hc_module_kernel(hc_module *module, int index, hc_kernel **kernel, hc_kernel_info *info) {
    if (index < 0 || (size_t)index >= module->kernels.size())
        return set_error(HC_NOT_FOUND, "the module has %zu kernels", module->kernels.size());
    *kernel = module->kernels[index];
    const hostcuda::Kernel &k = (*kernel)->kernel;
    *info = {(*kernel)->name.c_str(), k.parameters, k.parameter_count, k.packed_bytes, k.max_threads, k.why_fibers, k.function, k.loops_function};
    return HC_OK;
}

EXPORT int hc_module_place(hc_module *module, size_t text_begin, size_t text_end, const hc_patch *patches, int patch_count,
                           const hc_variable *variables, int variable_count) {
    module->text_begin = text_begin;
    module->text_end = text_end;
    for (int i = 0; i < variable_count; i++) watch_variable(module->watched, variables[i]);
    auto *tables = (void *)module->tables_begin;
    size_t bytes = module->tables_end - module->tables_begin;
    auto protect = [&](int how) { return !bytes || !mprotect(tables, bytes, how); };
    if (!patch_count || (protect(PROT_READ | PROT_WRITE) && redirect_shared(patches, patch_count, text_begin, text_end) && protect(PROT_READ)))
        return HC_OK;
    return set_error(HC_INVALID, "the offsets of its __shared__ variables cannot be changed");
}

EXPORT void hc_kernel_place(hc_kernel *kernel, const hc_static *on_fibers, const hc_static *as_loops) {
    kernel->shared = on_fibers;
    kernel->loops_shared = as_loops;
}

EXPORT size_t hc_module_callers(hc_module *module, size_t *offsets, size_t most) {
    size_t count = 0;
    auto in_module = [&](uintptr_t at) { return at >= module->text_begin && at < module->text_end; };
    if (most && in_module(host_code.faulted)) offsets[count++] = host_code.faulted - module->watched.base;
#if __has_include(<execinfo.h>)
    void *callers[256];                              // Python's frames are the innermost ones
    int frames = backtrace(callers, 256);
    for (int i = 0; i < frames && count < most; i++) {
        auto at = (uintptr_t)callers[i];
        if (in_module(at)) offsets[count++] = at - module->watched.base;
    }
#endif
    return count;
}

EXPORT void hc_host_faults(hc_module *module, void *tell) {
    host_code = {module->text_begin, module->text_end, 0, (void (*)(const char *))tell};
}

EXPORT void hc_module_variable(hc_module *module, const void *address, size_t bytes) { add_symbol_range(address, bytes, module); }

int describe_launch(hc_kernel *kernel, const unsigned grid[3], const unsigned block[3], Launch &launch) {
    const hc_module &module = *kernel->module;
    launch.kernel = kernel->name.c_str();
    launch.call = kernel->kernel.call;
    launch.flushes = kernel->kernel.flushes;
    launch.cluster = kernel->kernel.cluster;
    launch.bounds = kernel->kernel.max_threads < 1024 ? kernel->kernel.max_threads : 0;
    launch.text_begin = module.text_begin;
    launch.text_end = module.text_end;
    launch.base = module.watched.base;
    launch.data_begin = module.data_begin;
    launch.data_end = module.data_end;
    launch.loops = fits_loops(kernel->kernel.blocks, grid[0], block[0], block[1] * block[2]) ? kernel->kernel.loops : nullptr;
    launch.shared = launch.loops ? kernel->loops_shared : kernel->shared;
    launch.fibers_shared = kernel->shared;
    launch.block_seconds = &kernel->block_seconds;
    launch.module = &kernel->module->watched;
    launch.arguments_bytes = kernel->kernel.packed_bytes;
    return kernel->kernel.packed_bytes;
}
