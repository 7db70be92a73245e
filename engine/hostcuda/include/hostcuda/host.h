// CUDA's runtime API and kernel launches, for whole programs: source.py includes this before a program with host code.
//
// Each function of the API hands its name and its arguments, as 64-bit words, to hostcuda/programs/program.py, which works on the
// runtime's C interface. The text `kernel<<<grid, block>>>(arguments)` has become
// hostcuda::launch<decltype(hostcuda_pick_kernel(arguments))>(hostcuda::Config(grid, block))(arguments); hostcuda_pick_kernel has
// the kernel's parameters, so that C++ chooses among overloads and deduces template arguments as for a call.
#pragma once
#define HOSTCUDA_HOST_CODE 1
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <unistd.h>
#include "host_types.h"
#include "launch.h"
#include "print.h"

// Set before main is called. One for all files of the program.
extern "C" {
HOSTCUDA_API __attribute__((used)) inline long long (*hostcuda_host)(const char *name, const long long *arguments) = nullptr;
}

namespace hostcuda {

template <class T> long long word(T value) {
    if constexpr (std::is_pointer_v<T>) return (long long)(uintptr_t)value;
    else return (long long)value;
}

#ifdef HOSTCUDA_CHECK
extern "C" HOSTCUDA_API void hostcuda_calls(const char *name);
#endif

// Inlined, with the functions of the API: else a tail call hides the line of its caller. Findings call it `shown`.
template <class... A> inline __attribute__((always_inline)) cudaError_t host_as(const char *shown, const char *name, A... arguments) {
#ifdef HOSTCUDA_CHECK
    hostcuda_calls(shown);
#endif
    const long long words[] = {word(arguments)..., 0};
    if (!hostcuda_host) {
        fprintf(stderr, "%s: the CPU engine calls main first, and this is called before it\n", name);
        abort();
    }
    return (cudaError_t)hostcuda_host(name, words);
}
template <class... A> inline __attribute__((always_inline)) cudaError_t host(const char *name, A... arguments) {
    return host_as(name, name, arguments...);
}

// Whether this thread runs a kernel: elsewhere no block has a size.
inline bool in_kernel() { return blockDim.x != 0; }
// The same for a function that constant expressions may call; frontend/sides.py writes it.
#define HOSTCUDA_IN_KERNEL (!__builtin_is_constant_evaluated() && hostcuda::in_kernel())

// ---- Launches

struct Config {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    Config(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0)
        : grid(grid), block(block), shared(shared), stream(stream) {}
};

inline cudaError_t launch_packed(const void *function, const Config &c, const char *packed, size_t bytes) {
    return host("launch", function, c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z, c.shared, c.stream,
                packed, bytes);
}

template <class Function> struct Launch;
template <class... P> struct Launch<void (*)(P...)> {
    void (*function)(P...);
    Config config;

    template <size_t... i> void pack(char *packed, std::index_sequence<i...>, const P &...arguments) const {
        static constexpr Parameters<P...> parameters{};
        (memcpy(packed + parameters.of[i].offset, (const void *)&arguments, sizeof(P)), ...);
    }
    void operator()(P... arguments) const {
        static constexpr Parameters<P...> parameters{};
        alignas(64) char packed[parameters.packed_bytes + 1] = {};
        pack(packed, std::index_sequence_for<P...>(), arguments...);
        launch_packed((const void *)function, config, packed, parameters.packed_bytes);
    }
};

// A kernel.
template <auto function> struct Pick {
    static constexpr auto pointer = function;
};

// An instance of a template, whose body names `registered` of its bounds.
template <auto function> struct OfTemplate {
    static std::string name() {
        std::string text = __PRETTY_FUNCTION__;   // "... name() [with auto function = scale<float>; ...]"
        text = text.substr(text.find("function = ") + 11);
        text = text.substr(0, text.find_first_of(";]"));
        return text[0] == '&' ? text.substr(1) : text;
    }
    template <long long bounds> static bool add() {
        static const std::string shown = name();
        static Kernel kernel;
        Launchable<function>::add(kernel, shown.c_str(), bounds, Loops<>(), "");
        return true;
    }
    template <long long bounds> static const bool registered;
};
template <auto function> template <long long bounds> const bool OfTemplate<function>::registered = add<bounds>();

template <class Kernel> auto launch(const Config &config) {
    return Launch<std::remove_const_t<decltype(Kernel::pointer)>>{Kernel::pointer, config};
}

// Through a pointer to a kernel.
template <class... P> Launch<void (*)(P...)> launch_pointer(void (*function)(P...), const Config &config) {
    return {function, config};
}

// What a kernel does that the host calls like a function, mostly through a pointer: nvcc's has no configuration then, either.
inline void refuse_call(const char *kernel) {
    const std::string sentence = std::string("kernel ") + kernel + " was called without <<<grid, block>>>: it did not run";
    host("refuse", (int)cudaErrorMissingConfiguration, sentence.c_str());
}
#define HOSTCUDA_LAUNCHED \
    if (__builtin_expect(!hostcuda::in_kernel(), 0)) return hostcuda::refuse_call(__func__);

[[noreturn]] inline void leave(int status) {
    host("exit", status);
    _exit(status);
}

}  // namespace hostcuda

// ---- The C library: what a kernel and the host call by the same name

template <class... A> inline __attribute__((always_inline)) int hostcuda_printf(int statement, const char *format, A... arguments) {
    if (hostcuda::in_kernel()) return hostcuda::print(statement, format, arguments...);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
    return (printf)(format, arguments...);
#pragma GCC diagnostic pop
}
[[noreturn]] __attribute__((used)) inline void hostcuda_exit(int status) {   // other files call it, too (leave.h)
    if (hostcuda::in_kernel()) hostcuda::fail("exit() was called: leave a kernel with return, or end the launch with __trap()");
    hostcuda::leave(status);
}
// Of the host: processor time in microseconds. Of a kernel: a counter of the device.
inline clock_t hostcuda_clock() {
    if (hostcuda::in_kernel()) return (clock)();
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
namespace std {
using ::hostcuda_clock;
using ::hostcuda_exit;
using ::hostcuda_printf;
}  // namespace std
#undef printf
#define printf(...) hostcuda_printf(__COUNTER__ + 1, __VA_ARGS__)
#define exit(status) hostcuda_exit(status)
#define clock() hostcuda_clock()

// ---- Errors

inline const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define HOSTCUDA_ERROR(name, number, text) case name: return #name;
        HOSTCUDA_ERRORS(HOSTCUDA_ERROR)
#undef HOSTCUDA_ERROR
    }
    return "unrecognized error code";
}
inline const char *cudaGetErrorString(cudaError_t error) {
    if (error != cudaSuccess && !hostcuda::in_kernel()) hostcuda::host("reports", error);
    switch (error) {
#define HOSTCUDA_ERROR(name, number, text) case name: return text;
        HOSTCUDA_ERRORS(HOSTCUDA_ERROR)
#undef HOSTCUDA_ERROR
    }
    return "unrecognized error code";
}

// ---- The API: HOSTCUDA_CALL(name, (parameters), arguments...) is a function that hands its arguments on.

#define HOSTCUDA_CALL(name, parameters, ...) \
    inline __attribute__((always_inline)) cudaError_t name parameters { return hostcuda::host(#name, ##__VA_ARGS__); }

HOSTCUDA_CALL(cudaGetLastError, ())
HOSTCUDA_CALL(cudaPeekAtLastError, ())

HOSTCUDA_CALL(cudaGetDeviceCount, (int *count), count)
HOSTCUDA_CALL(cudaGetDevice, (int *device), device)
HOSTCUDA_CALL(cudaSetDevice, (int device), device)
HOSTCUDA_CALL(cudaChooseDevice, (int *device, const cudaDeviceProp *), device)
HOSTCUDA_CALL(cudaDeviceGetAttribute, (int *value, cudaDeviceAttr attribute, int device), value, attribute, device)
HOSTCUDA_CALL(cudaDeviceSynchronize, ())
HOSTCUDA_CALL(cudaThreadSynchronize, ())
HOSTCUDA_CALL(cudaDeviceReset, ())
HOSTCUDA_CALL(cudaThreadExit, ())
HOSTCUDA_CALL(cudaDeviceCanAccessPeer, (int *can, int, int), can)
inline cudaError_t cudaDeviceDisablePeerAccess(int) {
    return hostcuda::host("answer", cudaErrorInvalidDevice, "there are no peers: the CPU engine has device 0 only");
}
inline cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) { return cudaDeviceDisablePeerAccess(device); }
inline cudaError_t cudaDeviceGetP2PAttribute(int *, cudaDeviceP2PAttr, int device, int) { return cudaDeviceDisablePeerAccess(device); }
HOSTCUDA_CALL(cudaDeviceSetLimit, (cudaLimit limit, size_t value), limit, value)
HOSTCUDA_CALL(cudaDeviceGetLimit, (size_t *value, cudaLimit limit), value, limit)
HOSTCUDA_CALL(cudaDeviceGetPCIBusId, (char *id, int size, int device), id, size, device)
HOSTCUDA_CALL(cudaMemGetInfo, (size_t *free_bytes, size_t *total), free_bytes, total)
HOSTCUDA_CALL(cudaDriverGetVersion, (int *version), version)
HOSTCUDA_CALL(cudaRuntimeGetVersion, (int *version), version)
inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    for (int *out : {least, greatest})
        if (out) *out = 0;
    return cudaSuccess;
}

// Settings without an effect here.
#define HOSTCUDA_SETTING(name, ...) inline cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
HOSTCUDA_SETTING(cudaSetDeviceFlags, unsigned)
HOSTCUDA_SETTING(cudaDeviceSetCacheConfig, cudaFuncCache)
HOSTCUDA_SETTING(cudaDeviceSetSharedMemConfig, cudaSharedMemConfig)
HOSTCUDA_SETTING(cudaProfilerStart)
HOSTCUDA_SETTING(cudaProfilerStop)
HOSTCUDA_SETTING(cudaMemAdvise, const void *, size_t, cudaMemoryAdvise, int)
HOSTCUDA_SETTING(cudaMemAdvise, const void *, size_t, cudaMemoryAdvise, cudaMemLocation)
HOSTCUDA_SETTING(cudaMemPrefetchAsync, const void *, size_t, int, cudaStream_t = 0)
HOSTCUDA_SETTING(cudaMemPrefetchAsync, const void *, size_t, cudaMemLocation, unsigned, cudaStream_t = 0)
HOSTCUDA_SETTING(cudaStreamAttachMemAsync, cudaStream_t, void *, size_t = 0, unsigned = cudaMemAttachSingle)
HOSTCUDA_SETTING(cudaStreamSetAttribute, cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue *)
HOSTCUDA_SETTING(cudaCtxResetPersistingL2Cache)
#undef HOSTCUDA_SETTING

HOSTCUDA_CALL(cudaMalloc, (void **p, size_t bytes), p, bytes)
HOSTCUDA_CALL(cudaFree, (void *p), p)
HOSTCUDA_CALL(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height), p, pitch, width, height)
HOSTCUDA_CALL(cudaMallocManaged, (void **p, size_t bytes, unsigned = cudaMemAttachGlobal), p, bytes)
HOSTCUDA_CALL(cudaMallocHost, (void **p, size_t bytes, unsigned = 0), p, bytes)
HOSTCUDA_CALL(cudaHostAlloc, (void **p, size_t bytes, unsigned), p, bytes)
HOSTCUDA_CALL(cudaFreeHost, (void *p), p)
HOSTCUDA_CALL(cudaHostRegister, (void *p, size_t bytes, unsigned), p, bytes)
HOSTCUDA_CALL(cudaHostUnregister, (void *p), p)
inline cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
    *device = host;
    return cudaSuccess;
}
HOSTCUDA_CALL(cudaMallocAsync, (void **p, size_t bytes, cudaStream_t), p, bytes)
HOSTCUDA_CALL(cudaFreeAsync, (void *p, cudaStream_t s), p, s)
HOSTCUDA_CALL(cudaPointerGetAttributes, (cudaPointerAttributes *a, const void *p), a, p)
template <class T> cudaError_t cudaMalloc(T **p, size_t bytes) { return cudaMalloc((void **)p, bytes); }
template <class T> cudaError_t cudaMallocPitch(T **p, size_t *pitch, size_t width, size_t height) {
    return cudaMallocPitch((void **)p, pitch, width, height);
}
template <class T> cudaError_t cudaMallocManaged(T **p, size_t bytes, unsigned flags = cudaMemAttachGlobal) {
    return cudaMallocManaged((void **)p, bytes, flags);
}
template <class T> cudaError_t cudaMallocHost(T **p, size_t bytes, unsigned flags = 0) {
    return cudaMallocHost((void **)p, bytes, flags);
}
template <class T> cudaError_t cudaHostAlloc(T **p, size_t bytes, unsigned flags) {
    return cudaHostAlloc((void **)p, bytes, flags);
}
template <class T> cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned flags) {
    return cudaHostGetDevicePointer((void **)device, host, flags);
}
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s) { return cudaMallocAsync((void **)p, bytes, s); }

// With the most bytes that the compiler knows to be there, of a local array, say; -1: it does not know.
HOSTCUDA_CALL(cudaMemcpy, (void *to, const void *from, size_t bytes, cudaMemcpyKind kind), to, from, bytes, kind,
            __builtin_object_size(to, 0), __builtin_object_size(from, 0))
HOSTCUDA_CALL(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = 0),
            to, from, bytes, kind, s, __builtin_object_size(to, 0), __builtin_object_size(from, 0))
HOSTCUDA_CALL(cudaMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                           cudaMemcpyKind kind), to, to_pitch, from, from_pitch, width, height, kind)
HOSTCUDA_CALL(cudaMemcpy2DAsync, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind kind, cudaStream_t s = 0),
            to, to_pitch, from, from_pitch, width, height, kind, s)
inline cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t s = 0) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
}
inline cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) { return cudaMemcpyPeerAsync(to, 0, from, 0, bytes); }
HOSTCUDA_CALL(cudaMemset, (void *p, int value, size_t bytes), p, value, bytes)
HOSTCUDA_CALL(cudaMemsetAsync, (void *p, int value, size_t bytes, cudaStream_t s = 0), p, value, bytes, s)
HOSTCUDA_CALL(cudaMemset2D, (void *p, size_t pitch, int value, size_t width, size_t height), p, pitch, value, width, height)
HOSTCUDA_CALL(cudaMemset2DAsync, (void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t s = 0),
            p, pitch, value, width, height, s)

// Variables of the device: their address and size are known here.
template <class T> cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return hostcuda::host("cudaMemcpyToSymbol", &symbol, sizeof symbol, from, bytes, offset);
}
template <class T> cudaError_t cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
                                                       cudaMemcpyKind kind, cudaStream_t s = 0) {
    return hostcuda::host("cudaMemcpyToSymbol", &symbol, sizeof symbol, from, bytes, offset);
}
template <class T> cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                                    cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return hostcuda::host("cudaMemcpyFromSymbol", to, &symbol, sizeof symbol, bytes, offset);
}
template <class T> cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset,
                                                         cudaMemcpyKind kind, cudaStream_t s = 0) {
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset);
}
template <class U, class T> cudaError_t cudaGetSymbolAddress(U **p, const T &symbol) {
    return hostcuda::host("cudaGetSymbolAddress", p, &symbol, sizeof symbol);
}
template <class T> cudaError_t cudaGetSymbolSize(size_t *bytes, const T &symbol) {
    *bytes = sizeof symbol;
    return cudaSuccess;
}

HOSTCUDA_CALL(cudaStreamCreate, (cudaStream_t *s), s)
HOSTCUDA_CALL(cudaStreamCreateWithFlags, (cudaStream_t *s, unsigned flags), s, flags)
HOSTCUDA_CALL(cudaStreamCreateWithPriority, (cudaStream_t *s, unsigned flags, int), s, flags)
HOSTCUDA_CALL(cudaStreamDestroy, (cudaStream_t s), s)
HOSTCUDA_CALL(cudaStreamSynchronize, (cudaStream_t s), s)
HOSTCUDA_CALL(cudaStreamQuery, (cudaStream_t s), s)
HOSTCUDA_CALL(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned = 0), s, e)
HOSTCUDA_CALL(cudaStreamGetPriority, (cudaStream_t, int *priority), priority)
inline cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data) {
    if (!f) return hostcuda::host("refuse", cudaErrorInvalidValue, "cudaLaunchHostFunc failed: its function is a null pointer");
    const cudaError_t error = cudaStreamSynchronize(s);   // the program's thread calls it, at once
    if (!error) f(data);
    return error;
}
inline cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void *data, unsigned) {
    if (!f) return hostcuda::host("refuse", cudaErrorInvalidValue, "cudaStreamAddCallback failed: its function is a null pointer");
    const cudaError_t error = cudaStreamSynchronize(s);
    if (!error) f(s, cudaSuccess, data);
    return error;
}
HOSTCUDA_CALL(cudaEventCreate, (cudaEvent_t *e), e)
HOSTCUDA_CALL(cudaEventCreate, (cudaEvent_t *e, unsigned flags), e, flags)
HOSTCUDA_CALL(cudaEventCreateWithFlags, (cudaEvent_t *e, unsigned flags), e, flags)
HOSTCUDA_CALL(cudaEventDestroy, (cudaEvent_t e), e)
HOSTCUDA_CALL(cudaEventRecord, (cudaEvent_t e, cudaStream_t s = 0), e, s)
HOSTCUDA_CALL(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s = 0, unsigned = 0), e, s)
HOSTCUDA_CALL(cudaEventSynchronize, (cudaEvent_t e), e)
HOSTCUDA_CALL(cudaEventQuery, (cudaEvent_t e), e)
HOSTCUDA_CALL(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end), ms, start, end)

template <class F> cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute attribute, int value) {
    return hostcuda::host("cudaFuncSetAttribute", (const void *)kernel, attribute, value);
}
template <class F> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, F *kernel) {
    return hostcuda::host("cudaFuncGetAttributes", attributes, (const void *)kernel);
}
template <class F> cudaError_t cudaFuncSetCacheConfig(F *, cudaFuncCache) { return cudaSuccess; }
template <class F> cudaError_t cudaFuncSetSharedMemConfig(F *, cudaSharedMemConfig) { return cudaSuccess; }
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F *kernel, int threads, size_t shared) {
    return hostcuda::host("cudaOccupancyMaxActiveBlocksPerMultiprocessor", blocks, (const void *)kernel, threads, shared);
}
template <class F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, F *kernel, int threads, size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
template <class F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *threads, F *kernel, size_t shared = 0, int limit = 0) {
    cudaFuncAttributes a;
    if (cudaError_t error = cudaFuncGetAttributes(&a, kernel)) return error;
    *threads = limit && limit < a.maxThreadsPerBlock ? limit : a.maxThreadsPerBlock;
    return cudaDeviceGetAttribute(grid, cudaDevAttrMultiProcessorCount, 0);
}
template <class F>
cudaError_t cudaLaunchKernel(F *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0, cudaStream_t s = 0) {
    return hostcuda::host("launch_pointers", (const void *)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, s,
                        arguments);
}
template <class F>
cudaError_t cudaLaunchCooperativeKernel(F *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0, cudaStream_t s = 0) {
    return hostcuda::host("launch_cooperative", (const void *)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, s,
                        arguments);
}
// The driver's functions that programs ask for by name: of these the one that makes tensor maps (tensormap.h).
enum CUresult { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE };
inline CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *sizes,
                                       const cuuint64_t *pitches, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    const char *wrong = hostcuda::encode_tensor_map(map, type, rank, base, sizes, pitches, box, steps, interleave, swizzle, fill);
    if (!wrong) return CUDA_SUCCESS;
    hostcuda::host("refuse", (int)cudaErrorInvalidValue, (std::string("cuTensorMapEncodeTiled refuses its arguments: ") + wrong).c_str());
    return CUDA_ERROR_INVALID_VALUE;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult *result = nullptr) {
    bool found = !strcmp(name, "cuTensorMapEncodeTiled");
    *function = found ? (void *)cuTensorMapEncodeTiled : nullptr;
    if (result) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return found ? cudaSuccess : cudaErrorSymbolNotFound;
}
inline cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, cudaDriverEntryPointQueryResult *result = nullptr) {
    return cudaGetDriverEntryPointByVersion(name, function, 12000, flags, result);
}
namespace hostcuda {
// Keep the attributes for the next launch; returns whether it is cooperative.
inline bool keep_attributes(const cudaLaunchConfig_t *config) {
    decltype(cudaLaunchAttributeValue::clusterDim) cluster{};
    int programmatic = 0, cooperative = 0;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const auto &[id, value] = config->attrs[i];
        if (id == cudaLaunchAttributeClusterDimension) cluster = value.clusterDim;
        if (id == cudaLaunchAttributeProgrammaticStreamSerialization) programmatic = value.programmaticStreamSerializationAllowed;
        if (id == cudaLaunchAttributeCooperative) cooperative = value.cooperative;
    }
    if (cluster.x || programmatic) host("next_launch", cluster.x, cluster.y, cluster.z, programmatic);
    return cooperative;
}
template <class... P> cudaError_t launch_together(const cudaLaunchConfig_t *config, void (*kernel)(P...), P... arguments) {
    void *addresses[] = {(void *)&arguments..., nullptr};
    return cudaLaunchCooperativeKernel(kernel, config->gridDim, config->blockDim, addresses, config->dynamicSmemBytes, config->stream);
}
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...arguments) {
    bool cooperative = hostcuda::keep_attributes(config);
    if (cooperative) return hostcuda::launch_together<P...>(config, kernel, static_cast<A &&>(arguments)...);
    hostcuda::Launch<void (*)(P...)>{kernel, hostcuda::Config(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream)}(
        static_cast<A &&>(arguments)...);
    return hostcuda::host("last_error");
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **arguments) {
    bool cooperative = hostcuda::keep_attributes(config);
    return (cooperative ? cudaLaunchCooperativeKernel<const void> : cudaLaunchKernel<const void>)(
        kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}
template <class F> cudaError_t cudaOccupancyMaxPotentialClusterSize(int *blocks, F *kernel, const cudaLaunchConfig_t *config) {
    const dim3 threads = config->blockDim;
    return hostcuda::host("cudaOccupancyMaxPotentialClusterSize", blocks, (const void *)kernel, threads.x * threads.y * threads.z,
                          config->dynamicSmemBytes);
}
template <class F> cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, F *kernel, const cudaLaunchConfig_t *config) {
    const dim3 threads = config->blockDim;
    int per_multiprocessor = 0, multiprocessors = 0, blocks = 1;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const auto &[id, value] = config->attrs[i];
        if (id == cudaLaunchAttributeClusterDimension) blocks = value.clusterDim.x * value.clusterDim.y * value.clusterDim.z;
    }
    if (!blocks) return hostcuda::host("refuse", cudaErrorInvalidValue, "cudaOccupancyMaxActiveClusters failed: a cluster has no blocks");
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, threads.x * threads.y * threads.z,
                                                                      config->dynamicSmemBytes);
    if (!error) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    *clusters = per_multiprocessor * multiprocessors / blocks;
    return error;
}
template <class Shared, class F>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *threads, F *kernel, Shared of_threads, int limit = 0) {
    cudaFuncAttributes a;
    if (cudaError_t error = cudaFuncGetAttributes(&a, kernel)) return error;
    const int most = limit && limit < a.maxThreadsPerBlock ? limit : a.maxThreadsPerBlock;
    for (*threads = most / 32 * 32; *threads > 32; *threads -= 32)
        if (of_threads(*threads) + a.sharedSizeBytes <= 48 * 1024) break;
    return cudaOccupancyMaxPotentialBlockSize(grid, threads, kernel, of_threads(*threads), *threads);
}
#undef HOSTCUDA_CALL

#include "host_arrays.h"
#include "pools.h"

inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    if (cudaError_t error = cudaSetDevice(device)) return error;
    auto get = [](int attribute) {
        int value = 0;
        cudaDeviceGetAttribute(&value, (cudaDeviceAttr)attribute, 0);
        return value;
    };
    memset((void *)p, 0, sizeof *p);
    size_t unused;
    hostcuda::host("device_name", p->name, sizeof p->name);
    cudaMemGetInfo(&unused, &p->totalGlobalMem);
    p->maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
    for (int i = 0; i < 3; i++) p->maxThreadsDim[i] = get(cudaDevAttrMaxBlockDimX + i);
    for (int i = 0; i < 3; i++) p->maxGridSize[i] = get(cudaDevAttrMaxGridDimX + i);
    p->sharedMemPerBlock = get(cudaDevAttrMaxSharedMemoryPerBlock);
    p->sharedMemPerBlockOptin = get(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    p->sharedMemPerMultiprocessor = get(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    p->totalConstMem = get(cudaDevAttrTotalConstantMemory);
    p->warpSize = get(cudaDevAttrWarpSize);
    p->memPitch = get(cudaDevAttrMaxPitch);
    p->regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
    p->regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
    p->clockRate = get(cudaDevAttrClockRate);
    p->textureAlignment = get(cudaDevAttrTextureAlignment);
    p->surfaceAlignment = get(cudaDevAttrSurfaceAlignment);
    p->texturePitchAlignment = get(cudaDevAttrTexturePitchAlignment);
    p->maxTexture1D = get(cudaDevAttrMaxTexture1DWidth);
    for (int i = 0; i < 2; i++) p->maxTexture2D[i] = get(cudaDevAttrMaxTexture2DWidth + i);
    for (int i = 0; i < 3; i++) p->maxTexture3D[i] = get(cudaDevAttrMaxTexture3DWidth + i);
    p->deviceOverlap = get(cudaDevAttrGpuOverlap);
    p->asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
    p->multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
    p->maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
    p->maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
    p->integrated = get(cudaDevAttrIntegrated);
    p->canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
    p->concurrentKernels = get(cudaDevAttrConcurrentKernels);
    p->unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
    p->managedMemory = get(cudaDevAttrManagedMemory);
    p->cooperativeLaunch = get(cudaDevAttrCooperativeLaunch);
    p->concurrentManagedAccess = get(cudaDevAttrConcurrentManagedAccess);
    p->hostNativeAtomicSupported = get(cudaDevAttrHostNativeAtomicSupported);
    p->computeMode = get(cudaDevAttrComputeMode);
    p->memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
    p->l2CacheSize = get(cudaDevAttrL2CacheSize);
    p->major = get(cudaDevAttrComputeCapabilityMajor);
    p->minor = get(cudaDevAttrComputeCapabilityMinor);
    p->singleToDoublePrecisionPerfRatio = get(cudaDevAttrSingleToDoublePrecisionPerfRatio);
    return cudaSuccess;
}
