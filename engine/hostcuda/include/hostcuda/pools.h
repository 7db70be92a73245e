// Memory pools of whole programs (host.h). An allocation from a pool is one of the device: nothing is kept for later ones.
#pragma once

enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1, cudaMemPoolReuseAllowOpportunistic, cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh,
    cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh
};
enum cudaMemAllocationType { cudaMemAllocationTypeInvalid, cudaMemAllocationTypePinned };
enum cudaMemAllocationHandleType { cudaMemHandleTypeNone, cudaMemHandleTypePosixFileDescriptor };
enum cudaMemAccessFlags { cudaMemAccessFlagsProtNone, cudaMemAccessFlagsProtRead, cudaMemAccessFlagsProtReadWrite = 3 };
struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    cudaMemAllocationHandleType handleTypes;
    cudaMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char reserved[56];
};
struct cudaMemAccessDesc {
    cudaMemLocation location;
    cudaMemAccessFlags flags;
};

namespace hostcuda {
struct Pool {
    int reuse[3] = {1, 1, 1};
    unsigned long long kept = 0;   // the threshold of release
};
inline Pool default_pool, *pool = &default_pool;
}  // namespace hostcuda
typedef hostcuda::Pool *cudaMemPool_t;

inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    *pool = &hostcuda::default_pool;
    return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    *pool = hostcuda::pool;
    return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    hostcuda::pool = pool;
    return cudaSetDevice(device);
}
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties) {
    *pool = new hostcuda::Pool;
    return cudaSetDevice(properties->location.id);
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    if (hostcuda::pool == pool) hostcuda::pool = &hostcuda::default_pool;
    if (pool != &hostcuda::default_pool) delete pool;
    return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) { return cudaSuccess; }

namespace hostcuda {
inline cudaError_t pool_attribute(Pool *pool, cudaMemPoolAttr attribute, void *value, bool set) {
    const int reuse = attribute - cudaMemPoolReuseFollowEventDependencies;
    void *ours = attribute == cudaMemPoolAttrReleaseThreshold ? (void *)&pool->kept
                 : reuse >= 0 && reuse < 3                    ? (void *)&pool->reuse[reuse] : nullptr;
    if (!ours) return refuse(cudaErrorNotSupported, "the CPU engine does not count the memory of a pool: ask cudaMemGetInfo");
    memcpy(set ? ours : value, set ? value : ours, attribute == cudaMemPoolAttrReleaseThreshold ? 8 : 4);
    return cudaSuccess;
}
}  // namespace hostcuda
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    return hostcuda::pool_attribute(pool, attribute, value, true);
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value) {
    return hostcuda::pool_attribute(pool, attribute, value, false);
}
template <class T> cudaError_t cudaMallocFromPoolAsync(T **p, size_t bytes, cudaMemPool_t, cudaStream_t) {
    return cudaMalloc((void **)p, bytes);
}
template <class T> cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaMemPool_t, cudaStream_t) {
    return cudaMalloc((void **)p, bytes);
}
