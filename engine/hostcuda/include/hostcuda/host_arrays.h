// Boxes of memory, CUDA arrays, textures and surfaces of whole programs (host.h). texture.h reads them in kernels.
#pragma once

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat, cudaChannelFormatKindNone
};
struct cudaChannelFormatDesc {
    int x, y, z, w;   // bits of each channel
    cudaChannelFormatKind f;
};
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaResourceType { cudaResourceTypeArray, cudaResourceTypeMipmappedArray, cudaResourceTypeLinear, cudaResourceTypePitch2D };
enum : unsigned {
    cudaArrayDefault = 0, cudaArrayLayered = 1, cudaArraySurfaceLoadStore = 2, cudaArrayCubemap = 4, cudaArrayTextureGather = 8
};

struct cudaArray {
    char *data;
    cudaChannelFormatDesc desc;
    cudaExtent extent;   // texels; 0 in the dimensions that it does not have
    unsigned flags;
    size_t texel() const { return (desc.x + desc.y + desc.z + desc.w) / 8; }
    size_t row() const { return extent.width * texel(); }
    size_t rows() const { return extent.height ? extent.height : 1; }
    size_t slices() const { return extent.depth ? extent.depth : 1; }
};
typedef cudaArray *cudaArray_t;
typedef const cudaArray *cudaArray_const_t;

struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct { cudaArray_t array; } array;
        struct { void *devPtr; cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
        struct { void *devPtr; cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
    } res;
};
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaResourceViewDesc;

namespace hostcuda {
inline cudaError_t refuse(cudaError_t error, const char *why) { return host("refuse", (int)error, why); }
}  // namespace hostcuda

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}
template <class T> cudaChannelFormatDesc cudaCreateChannelDesc() {
    using C = typename hostcuda::Texel<T>::Channel;
    const int bits = 8 * sizeof(C), n = hostcuda::Texel<T>::channels;
    return {bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0,
            std::is_floating_point_v<C> ? cudaChannelFormatKindFloat
            : std::is_signed_v<C> ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned};
}

// ---- Arrays

inline cudaError_t cudaMalloc3DArray(cudaArray_t *out, const cudaChannelFormatDesc *desc, cudaExtent extent, unsigned flags = 0) {
    if (flags & (cudaArrayLayered | cudaArrayCubemap))
        return hostcuda::refuse(cudaErrorNotSupported, "the CPU engine has no layered arrays and no cubemaps: use an array per layer");
    cudaArray a = {nullptr, *desc, extent, flags};
    if (cudaError_t error = cudaMalloc((void **)&a.data, a.row() * a.rows() * a.slices())) return error;
    *out = new cudaArray(a);
    return cudaSuccess;
}
inline cudaError_t cudaMallocArray(cudaArray_t *out, const cudaChannelFormatDesc *desc, size_t width, size_t height = 0, unsigned flags = 0) {
    return cudaMalloc3DArray(out, desc, {width, height, 0}, flags);
}
inline cudaError_t cudaFreeArray(cudaArray_t a) {
    if (!a) return cudaSuccess;
    const cudaError_t error = cudaFree(a->data);
    delete a;
    return error;
}
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned *flags, cudaArray_t a) {
    if (desc) *desc = a->desc;
    if (extent) *extent = a->extent;
    if (flags) *flags = a->flags;
    return cudaSuccess;
}

inline cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t a, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                            size_t height, cudaMemcpyKind kind, cudaStream_t s = 0) {
    if (x + width > a->row() || y + height > a->rows())
        return hostcuda::refuse(cudaErrorInvalidValue, "cudaMemcpy2DToArray failed: the rectangle is larger than the array (x and width count bytes)");
    return cudaMemcpy2DAsync(a->data + y * a->row() + x, a->row(), from, pitch, width, height, kind, s);
}
inline cudaError_t cudaMemcpy2DToArray(cudaArray_t a, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                       size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2DToArrayAsync(a, x, y, from, pitch, width, height, kind);
}
inline cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t a, size_t x, size_t y, size_t width,
                                              size_t height, cudaMemcpyKind kind, cudaStream_t s = 0) {
    if (x + width > a->row() || y + height > a->rows())
        return hostcuda::refuse(cudaErrorInvalidValue, "cudaMemcpy2DFromArray failed: the rectangle is larger than the array (x and width count bytes)");
    return cudaMemcpy2DAsync(to, pitch, a->data + y * a->row() + x, a->row(), width, height, kind, s);
}
inline cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t a, size_t x, size_t y, size_t width,
                                         size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2DFromArrayAsync(to, pitch, a, x, y, width, height, kind);
}
inline cudaError_t cudaMemcpyToArray(cudaArray_t a, size_t x, size_t y, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(a->data + y * a->row() + x, from, bytes, kind);
}
inline cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t a, size_t x, size_t y, size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpy(to, a->data + y * a->row() + x, bytes, kind);
}

// ---- Boxes: ysize rows, one below the other, are a slice. Places and sizes of an array count texels, others bytes.

inline cudaError_t cudaMalloc3D(cudaPitchedPtr *p, cudaExtent e) {
    p->xsize = e.width, p->ysize = e.height;
    return cudaMallocPitch(&p->ptr, &p->pitch, e.width, e.height * e.depth);
}
inline cudaError_t cudaMemset3D(cudaPitchedPtr p, int value, cudaExtent e) {
    for (size_t z = 0; z < e.depth; z++)
        if (cudaError_t error = cudaMemset2D((char *)p.ptr + z * p.ysize * p.pitch, p.pitch, value, e.width, e.height))
            return error;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t s = 0) {
    const size_t unit = p->srcArray ? p->srcArray->texel() : p->dstArray ? p->dstArray->texel() : 1;
    auto whole = [](cudaArray_t a, cudaPitchedPtr p) {
        return a ? cudaPitchedPtr{a->data, a->row(), a->row(), a->rows()} : p;
    };
    auto at = [](cudaPitchedPtr whole, cudaPos pos, size_t unit, size_t z) {
        return (char *)whole.ptr + ((pos.z + z) * whole.ysize + pos.y) * whole.pitch + pos.x * unit;
    };
    const cudaPitchedPtr to = whole(p->dstArray, p->dstPtr), from = whole(p->srcArray, p->srcPtr);
    for (size_t z = 0; z < p->extent.depth; z++)
        if (cudaError_t error = cudaMemcpy2DAsync(at(to, p->dstPos, p->dstArray ? unit : 1, z), to.pitch,
                                                  at(from, p->srcPos, p->srcArray ? unit : 1, z), from.pitch,
                                                  p->extent.width * unit, p->extent.height, p->kind, s))
            return error;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *p) { return cudaMemcpy3DAsync(p); }

// ---- Textures and surfaces. What is destroyed is marked and kept, so that a kernel that is launched later is told.

namespace hostcuda {
inline cudaError_t describe(Texture &t, const cudaResourceDesc *r) {
    cudaChannelFormatDesc desc;
    if (r->resType == cudaResourceTypeArray) {
        const cudaArray &a = *r->res.array.array;
        desc = a.desc;
        t.data = a.data, t.role = Role::sampled, t.dimensions = a.extent.depth ? 3 : a.extent.height ? 2 : 1;
        t.size[0] = a.extent.width, t.size[1] = a.rows(), t.size[2] = a.slices(), t.row = a.row(), t.slice = a.row() * a.rows();
    } else if (r->resType == cudaResourceTypeLinear) {
        desc = r->res.linear.desc;
        t.data = (char *)r->res.linear.devPtr, t.role = Role::fetched, t.dimensions = 1;
    } else if (r->resType == cudaResourceTypePitch2D) {
        const auto &p = r->res.pitch2D;
        if (p.pitchInBytes % 32)
            return refuse(cudaErrorInvalidValue, "cudaCreateTextureObject failed: pitchInBytes is no multiple of 32: take cudaMallocPitch's");
        desc = p.desc;
        t.data = (char *)p.devPtr, t.role = Role::sampled, t.dimensions = 2;
        t.size[0] = p.width, t.size[1] = p.height, t.row = p.pitchInBytes;
    } else {
        return refuse(cudaErrorNotSupported, "the CPU engine has no mipmapped arrays: use an array per level");
    }
    t.channels = (desc.x > 0) + (desc.y > 0) + (desc.z > 0) + (desc.w > 0), t.bytes = desc.x / 8;
    t.kind = desc.f == cudaChannelFormatKindFloat ? 'f' : desc.f == cudaChannelFormatKindSigned ? 'i' : 'u';
    if (!t.channels || t.channels == 3 || desc.f == cudaChannelFormatKindNone || (t.bytes != 1 && t.bytes != 2 && t.bytes != 4) ||
        (t.kind == 'f' && t.bytes == 1) || desc.x + desc.y + desc.z + desc.w != t.channels * desc.x)
        return refuse(cudaErrorInvalidChannelDescriptor, "a texel has 1, 2 or 4 channels of 8, 16 or 32 bits each; floats have 16 or 32");
    if (t.role == Role::fetched) t.size[0] = r->res.linear.sizeInBytes / (t.channels * t.bytes);
    return cudaSuccess;
}
inline cudaError_t destroy(unsigned long long object) {
    Texture *t = (Texture *)object;
    if (!t || t->mark != Texture::valid) return refuse(cudaErrorInvalidValue, "there is no such texture or surface object, or it was destroyed");
    const cudaError_t error = cudaDeviceSynchronize();   // for the kernels that were launched before
    t->mark = 0;
    return error;
}
}  // namespace hostcuda

inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t *out, const cudaResourceDesc *r, const cudaTextureDesc *d,
                                           const cudaResourceViewDesc *view) {
    hostcuda::Texture t = {};
    if (view) return hostcuda::refuse(cudaErrorNotSupported, "the CPU engine has no views of resources: give cudaCreateTextureObject none");
    if (cudaError_t error = hostcuda::describe(t, r)) return error;
    t.linear = d->filterMode == cudaFilterModeLinear, t.normalized = d->normalizedCoords;
    t.fractions = d->readMode == cudaReadModeNormalizedFloat && t.kind != 'f';
    if (t.fractions && t.bytes == 4)
        return hostcuda::refuse(cudaErrorInvalidValue, "cudaReadModeNormalizedFloat is for integers of 8 and 16 bits");
    if (t.linear && t.kind != 'f' && !t.fractions)
        return hostcuda::refuse(cudaErrorInvalidFilterSetting, "cudaFilterModeLinear needs results in float: set readMode to cudaReadModeNormalizedFloat");
    for (int i = 0; i < 3; i++) {
        t.address[i] = (hostcuda::Address)d->addressMode[i];
        if (!t.normalized && d->addressMode[i] != cudaAddressModeBorder) t.address[i] = hostcuda::Address::clamp;   // as on a GPU
    }
    memcpy(t.border, d->borderColor, sizeof t.border);
    *out = (cudaTextureObject_t)new hostcuda::Texture(t);
    return cudaSuccess;
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { return hostcuda::destroy(object); }

inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *out, const cudaResourceDesc *r) {
    hostcuda::Texture t = {};
    if (r->resType != cudaResourceTypeArray)
        return hostcuda::refuse(cudaErrorInvalidValue, "cudaCreateSurfaceObject failed: a surface is of an array: cudaMallocArray with cudaArraySurfaceLoadStore");
    if (cudaError_t error = hostcuda::describe(t, r)) return error;
    t.role = hostcuda::Role::surface;
    *out = (cudaSurfaceObject_t)new hostcuda::Texture(t);
    return cudaSuccess;
}
inline cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return hostcuda::destroy(object); }
