// CUDA's built-in vector types: char1 to ulonglong4, float1 to float4, double1 to double4, and their make_
// functions.
//
// Sizes and alignments are CUDA's (CUDA C++ Programming Guide, "Built-in Vector Types"), so that a float4 load needs a
// 16-byte aligned address here, too. As in CUDA, the types are aggregates without operators. They have trivial default
// constructors, which __shared__ arrays of them need.
#pragma once

// Members x, y, z, w of type T; a2 and a4 are the alignments of the types with two and four members.
#define HOSTCUDA_VECTOR_TYPES(T, name, a2, a4)                                                          \
    struct name##1 { T x; };                                                                          \
    struct alignas(a2) name##2 { T x, y; };                                                           \
    struct name##3 { T x, y, z; };                                                                    \
    struct alignas(a4) name##4 { T x, y, z, w; };                                                     \
    constexpr name##1 make_##name##1(T x) { return {x}; }                                             \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                     \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                             \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

HOSTCUDA_VECTOR_TYPES(signed char, char, 2, 4)
HOSTCUDA_VECTOR_TYPES(unsigned char, uchar, 2, 4)
HOSTCUDA_VECTOR_TYPES(short, short, 4, 8)
HOSTCUDA_VECTOR_TYPES(unsigned short, ushort, 4, 8)
HOSTCUDA_VECTOR_TYPES(int, int, 8, 16)
HOSTCUDA_VECTOR_TYPES(unsigned int, uint, 8, 16)
HOSTCUDA_VECTOR_TYPES(long, long, 16, 16)
HOSTCUDA_VECTOR_TYPES(unsigned long, ulong, 16, 16)
HOSTCUDA_VECTOR_TYPES(long long, longlong, 16, 16)
HOSTCUDA_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
HOSTCUDA_VECTOR_TYPES(float, float, 8, 16)
HOSTCUDA_VECTOR_TYPES(double, double, 16, 16)

#undef HOSTCUDA_VECTOR_TYPES

// CUDA 13 has names with the alignment for the 32-byte types.
#define HOSTCUDA_VECTOR_TYPES_32(T, name)                                                               \
    using name##4_16a = name##4;                                                                      \
    struct alignas(32) name##4_32a { T x, y, z, w; };                                                 \
    constexpr name##4_16a make_##name##4_16a(T x, T y, T z, T w) { return {x, y, z, w}; }             \
    constexpr name##4_32a make_##name##4_32a(T x, T y, T z, T w) { return {x, y, z, w}; }

HOSTCUDA_VECTOR_TYPES_32(long, long)
HOSTCUDA_VECTOR_TYPES_32(unsigned long, ulong)
HOSTCUDA_VECTOR_TYPES_32(long long, longlong)
HOSTCUDA_VECTOR_TYPES_32(unsigned long long, ulonglong)
HOSTCUDA_VECTOR_TYPES_32(double, double)

#undef HOSTCUDA_VECTOR_TYPES_32
