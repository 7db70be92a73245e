// Textures and surfaces of whole programs: objects over linear memory, rows with a pitch, and CUDA arrays of one to three
// dimensions (host_arrays.h makes them). Texels are read by the formulas of the CUDA C++ Programming Guide, "Texture
// Fetching". An access outside of its texture is refused here; check mode is told of each texel that counts.
//
// Weights are rounded as an H200 does it: samples of lines and planes of floats are equal to its own, to the bit; those of
// boxes within 1/256 of the range of the texels. One thing is not copied: there, a linear line whose further address modes
// are cudaAddressModeBorder is blended with the border everywhere.
//
// Layered textures, cubemaps and levels of detail do not compile. (source.py refuses texture references.)
#pragma once
#include "half.h"
#include "sync.h"

#ifdef HOSTCUDA_CHECK
// `from`: the return address of the texture function, in the kernel.
extern "C" HOSTCUDA_API void hostcuda_texel_read(const void *texel, size_t bytes, void *from);
extern "C" HOSTCUDA_API void hostcuda_texel_written(const void *texel, size_t bytes, void *from);
#define HOSTCUDA_TEXEL(what, at, bytes) hostcuda_texel_##what(at, bytes, __builtin_extract_return_addr(__builtin_return_address(0)))
#else
#define HOSTCUDA_TEXEL(what, at, bytes)
#endif
#define HOSTCUDA_INTO_KERNEL inline __attribute__((always_inline))   // their calls return there

typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace hostcuda {

enum class Address { wrap, clamp, mirror, border };   // cudaTextureAddressMode
enum class Role { fetched, sampled, surface };        // linear memory, by tex1Dfetch; by tex1D, tex2D, tex3D; by surf...

// The number of an object is the address of its Texture. Sizes are in texels; rows and slices are so many bytes apart.
struct Texture {
    static constexpr unsigned valid = 0x7e1a6b0c;
    unsigned mark = valid;
    Role role;
    char *data;
    int dimensions, channels, bytes;   // bytes of a channel
    size_t size[3], row, slice;
    char kind;                         // 'i', 'u', 'f': integers, or float
    Address address[3];
    bool linear, fractions, normalized;   // filter; integers become fractions of 1; so are coordinates
    float border[4];
};

template <class T, bool = std::is_arithmetic_v<T>> struct Texel {
    using Channel = T;
    static constexpr int channels = 1;
};
template <class T> struct Texel<T, false> {
    using Channel = decltype(T::x);
    static constexpr int channels = sizeof(T) / sizeof(Channel);
};

inline HOSTCUDA_UNSEEN const Texture &texture(unsigned long long object, Role role, int dimensions, const char *what) {
    const Texture *t = (const Texture *)object;
    if (!t || t->mark != Texture::valid) fail("%s: there is no such object: create it, and destroy it after its last use", what);
    if (t->role != role)
        fail("%s: the object is %s", what, t->role == Role::fetched ? "a texture of linear memory: use tex1Dfetch"
             : t->role == Role::sampled ? "a texture of rows or of an array: use tex1D, tex2D or tex3D" : "a surface");
    if (t->dimensions != dimensions) fail("%s: the object has %d dimensions", what, t->dimensions);
    return *t;
}

// A texture whose texels are read as C.
template <class C>
HOSTCUDA_UNSEEN const Texture &texture_of(unsigned long long object, Role role, int dimensions, const char *what) {
    const Texture &t = texture(object, role, dimensions, what);
    if (std::is_floating_point_v<C> != (t.kind == 'f' || t.fractions) || (std::is_integral_v<C> && sizeof(C) != t.bytes))
        fail("%s: the type of its result is not that of the texels, %d bytes per channel: ask for that type, or for float "
             "with cudaReadModeNormalizedFloat", what, t.bytes);
    return t;
}

template <class C> HOSTCUDA_UNSEEN C channel(const Texture &t, const char *texel, int c) {
    if (c >= t.channels) return C();
    texel += c * t.bytes;
    auto as = [&](auto value) HOSTCUDA_UNSEEN { memcpy((void *)&value, texel, sizeof value); return value; };
    if (t.kind == 'f') return t.bytes == 2 ? C(__half2float(as(__half()))) : C(as(float()));
    long long value, most;
    if (t.bytes == 1) value = t.kind == 'i' ? as((signed char)0) : as((unsigned char)0), most = t.kind == 'i' ? 127 : 255;
    else if (t.bytes == 2) value = t.kind == 'i' ? as(short()) : as((unsigned short)0), most = t.kind == 'i' ? 32767 : 65535;
    else return C(t.kind == 'i' ? as(int()) : as(0u));
    return t.fractions ? C(value < -most ? -1.0f : (float)value / most) : C(value);
}

// Where a texel is along a dimension; -1: outside, where the border's value is read. A mirror turns whole texels over: a place
// where one begins belongs to it there, too, as on an H200.
inline HOSTCUDA_UNSEEN long long place(const Texture &t, int d, float floored) {
    const long long n = t.size[d];
    long long i = floored > -1e9f ? floored < 1e9f ? (long long)floored : 1000000000 : -1000000000;   // also of a NaN
    switch (t.address[d]) {
    case Address::wrap: return (i % n + n) % n;
    case Address::mirror:
        i = (i % (2 * n) + 2 * n) % (2 * n);
        return i < n ? i : 2 * n - 1 - i;
    case Address::border: return i < 0 || i >= n ? -1 : i;
    default: return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

template <class C> HOSTCUDA_UNSEEN C border(const Texture &t, int c) {
    const float value = t.border[c], least = t.kind == 'i' ? -1 : 0;
    return C(!t.fractions ? value : value < least ? least : value > 1 ? 1 : value);
}

template <class T, int dimensions>
HOSTCUDA_UNSEEN T sample(unsigned long long object, const float (&at)[dimensions], const char *what) {
    using C = typename Texel<T>::Channel;
    const Texture &t = texture_of<C>(object, Role::sampled, dimensions, what);
    long long near[dimensions][2] = {};
    int weight[1 << dimensions] = {256};                       // of the corners, in units of 1/256
    for (int d = 0; d < dimensions; d++) {
        const float x = at[d] * (t.normalized ? t.size[d] : 1);
        const float base = floorf(t.linear ? x - 0.5f : x);
        near[d][0] = place(t, d, base);
        if (!t.linear) continue;
        near[d][1] = place(t, d, base + 1);
        int rest = (int)floorf((x - 0.5f - base) * 256 + 0.5f);   // 8 bits of fraction
        const int part = rest;
        for (int corner = (1 << d) - 1; corner >= 0; corner--) {  // products of weights have 8 bits, too, as on an H200
            const int moved = corner ? (weight[corner] * part + 128) >> 8 : rest;
            weight[corner | 1 << d] = moved;
            weight[corner] -= moved;
            rest -= moved;
        }
    }
    C sum[4] = {};
    for (int corner = 0; corner < (t.linear ? 1 << dimensions : 1); corner++) {
        const char *texel = t.data;
        for (int d = 0; d < dimensions; d++) {
            const long long i = near[d][corner >> d & 1];
            texel = i < 0 || !texel ? nullptr : texel + i * (d == 0 ? t.channels * t.bytes : d == 1 ? t.row : t.slice);
        }
        if (texel && (!t.linear || weight[corner])) HOSTCUDA_TEXEL(read, texel, t.channels * t.bytes);
        for (int c = 0; c < Texel<T>::channels; c++) {
            const C value = texel ? channel<C>(t, texel, c) : border<C>(t, c);
            sum[c] = t.linear ? C(sum[c] + weight[corner] / 256.0f * value) : value;
        }
    }
    T result;
    memcpy((void *)&result, sum, sizeof result);
    return result;
}

template <class T> HOSTCUDA_UNSEEN T fetch(unsigned long long object, long long i) {
    using C = typename Texel<T>::Channel;
    const Texture &t = texture_of<C>(object, Role::fetched, 1, "tex1Dfetch");
    C read[4] = {};
    if (i >= 0 && i < (long long)t.size[0]) HOSTCUDA_TEXEL(read, t.data + i * t.channels * t.bytes, t.channels * t.bytes);
    for (int c = 0; c < Texel<T>::channels && i >= 0 && i < (long long)t.size[0]; c++)   // outside: 0
        read[c] = channel<C>(t, t.data + i * t.channels * t.bytes, c);
    T result;
    memcpy((void *)&result, read, sizeof result);
    return result;
}

// Where bytes of a surface are; null: outside, and the mode allows that.
inline HOSTCUDA_UNSEEN char *surface_at(unsigned long long object, int bytes, int dimensions, long long x, long long y,
                                      long long z, cudaSurfaceBoundaryMode mode, const char *what) {
    const Texture &t = texture(object, Role::surface, dimensions, what);
    long long at[3] = {x, y, z};
    const long long most[3] = {(long long)t.size[0] * t.channels * t.bytes - bytes, (long long)t.size[1] - 1,
                               (long long)t.size[2] - 1};
    if (x % bytes) fail("%s: x = %lld bytes is no multiple of the %d bytes that are accessed", what, x, bytes);
    for (int d = 0; d < dimensions; d++) {
        if (at[d] >= 0 && at[d] <= most[d]) continue;
        if (mode == cudaBoundaryModeZero) return nullptr;
        if (mode == cudaBoundaryModeTrap)
            fail("%s: %c = %lld%s is outside of the surface, whose last place is %lld%s", what, "xyz"[d], at[d],
                 d ? "" : " bytes", most[d], d ? "" : ": x counts bytes, not texels");
        at[d] = at[d] < 0 ? 0 : most[d];
    }
    return t.data + at[2] * t.slice + at[1] * t.row + at[0];
}

template <class T> HOSTCUDA_UNSEEN T surface_read(const char *from) {
    T value = {};
    if (!from) return value;
    HOSTCUDA_TEXEL(read, from, sizeof value);
    memcpy((void *)&value, from, sizeof value);
    return value;
}
template <class T> HOSTCUDA_UNSEEN void surface_write(char *to, const T &value) {
    if (!to) return;
    HOSTCUDA_TEXEL(written, to, sizeof value);
    memcpy(to, (const void *)&value, sizeof value);
}

}  // namespace hostcuda

template <class T> HOSTCUDA_INTO_KERNEL T tex1Dfetch(cudaTextureObject_t t, int i) { return hostcuda::fetch<T>(t, i); }
template <class T> HOSTCUDA_INTO_KERNEL T tex1D(cudaTextureObject_t t, float x) { return hostcuda::sample<T, 1>(t, {x}, "tex1D"); }
template <class T> HOSTCUDA_INTO_KERNEL T tex2D(cudaTextureObject_t t, float x, float y) { return hostcuda::sample<T, 2>(t, {x, y}, "tex2D"); }
template <class T> HOSTCUDA_INTO_KERNEL T tex3D(cudaTextureObject_t t, float x, float y, float z) {
    return hostcuda::sample<T, 3>(t, {x, y, z}, "tex3D");
}
template <class T> HOSTCUDA_INTO_KERNEL void tex1Dfetch(T *out, cudaTextureObject_t t, int i) { *out = tex1Dfetch<T>(t, i); }
template <class T> HOSTCUDA_INTO_KERNEL void tex1D(T *out, cudaTextureObject_t t, float x) { *out = tex1D<T>(t, x); }
template <class T> HOSTCUDA_INTO_KERNEL void tex2D(T *out, cudaTextureObject_t t, float x, float y) { *out = tex2D<T>(t, x, y); }
template <class T> HOSTCUDA_INTO_KERNEL void tex3D(T *out, cudaTextureObject_t t, float x, float y, float z) { *out = tex3D<T>(t, x, y, z); }

// x in bytes. HOSTCUDA_SURFACE(dimensions, the parameters, and their names)
#define HOSTCUDA_SURFACE(n, parameters, ...)                                                                             \
    template <class T> HOSTCUDA_INTO_KERNEL T surf##n##Dread(cudaSurfaceObject_t s, parameters,                                             \
                                        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                         \
        return hostcuda::surface_read<T>(hostcuda::surface_at(s, sizeof(T), n, __VA_ARGS__, mode, "surf" #n "Dread"));     \
    }                                                                                                                  \
    template <class T> HOSTCUDA_INTO_KERNEL void surf##n##Dread(T *out, cudaSurfaceObject_t s, parameters,                                  \
                                           cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                      \
        *out = hostcuda::surface_read<T>(hostcuda::surface_at(s, sizeof(T), n, __VA_ARGS__, mode, "surf" #n "Dread"));     \
    }                                                                                                                  \
    template <class T> HOSTCUDA_INTO_KERNEL void surf##n##Dwrite(T value, cudaSurfaceObject_t s, parameters,                                \
                                            cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                     \
        hostcuda::surface_write(hostcuda::surface_at(s, sizeof(T), n, __VA_ARGS__, mode, "surf" #n "Dwrite"), value);      \
    }
#define HOSTCUDA_AND ,
HOSTCUDA_SURFACE(1, int x, x, 0, 0)
HOSTCUDA_SURFACE(2, int x HOSTCUDA_AND int y, x, y, 0)
HOSTCUDA_SURFACE(3, int x HOSTCUDA_AND int y HOSTCUDA_AND int z, x, y, z)
#undef HOSTCUDA_AND
#undef HOSTCUDA_SURFACE

#define HOSTCUDA_NO_TEXTURE(name)                                                                                  \
    template <class T = float, class... A> inline T name(A...) {                                                 \
        static_assert(sizeof...(A) > 99, "the CPU engine has no layered textures, cubemaps and levels of detail: " \
                                         "use a texture per layer, or run it on a GPU");                         \
        return T();                                                                                              \
    }
HOSTCUDA_NO_TEXTURE(tex1DLayered)
HOSTCUDA_NO_TEXTURE(tex2DLayered)
HOSTCUDA_NO_TEXTURE(texCubemap)
HOSTCUDA_NO_TEXTURE(tex1DLod)
HOSTCUDA_NO_TEXTURE(tex2DLod)
HOSTCUDA_NO_TEXTURE(tex3DLod)
HOSTCUDA_NO_TEXTURE(tex2Dgather)
HOSTCUDA_NO_TEXTURE(surf2DLayeredread)
HOSTCUDA_NO_TEXTURE(surf2DLayeredwrite)
#undef HOSTCUDA_NO_TEXTURE
