// Half arithmetic on vectors: what g++ calls in thread loops in place of half.h's operations on one value.
//
// half.h declares hostcuda_half2_fma and the others with __attribute__((simd)), so that g++ can vectorize a loop that calls
// them. It then calls their versions for vectors, whose names tell how many values they take (the vector function ABI of
// x86): 4, 8 or 16 numbers of 32 bits. Each is a half2, or one half with zeros above it. Arguments and results are in the
// first vector registers, and a function may change any of these.
//
// They are written in assembler, because g++ 12 cannot vectorize conversions between half and float, and because it
// assembles all of them in less time than it would compile one. The results are those of half.h, also the payload of NaN.
#if defined(__F16C__) && defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)

asm(R"(
    .macro hostcuda_begin name
    .globl \name
    .type \name, @function
    .balign 16
\name:
    .endm
)");

// s = a * b + c for registers of floats that were halves, so that rounding s to half is rounding the exact sum. For that, s
// is rounded "to odd": if it is not exact, its last bit is set (Boldo and Melquiond, 2008).
#if defined(__AVX512F__)
// Of the sums rounded up and down, the odd one. There are rounding modes for 512 bits only.
asm(R"(
    .macro hostcuda_fma v, s, a, b, c, t, u
    vmovaps %zmm\c, %zmm\s
    vmovaps %zmm\c, %zmm\t
    vfmadd231ps {ru-sae}, %zmm\a, %zmm\b, %zmm\s
    vfmadd231ps {rd-sae}, %zmm\a, %zmm\b, %zmm\t
    vptestmd hostcuda_half_ones(%rip){1to16}, %zmm\t, %k1
    vmovaps %zmm\t, %zmm\s{%k1}
    .endm
)");
#else
// The product is exact. The error of the sum is computed, too (Knuth's two-sum), and s is truncated if there is one.
asm(R"(
    .macro hostcuda_fma v, s, a, b, c, t, u
    vmovaps %\v\c, %\v\s
    vfmadd231ps %\v\a, %\v\b, %\v\s
    vsubps %\v\c, %\v\s, %\v\t
    vsubps %\v\t, %\v\s, %\v\u
    vsubps %\v\u, %\v\c, %\v\u
    vfmsub231ps %\v\a, %\v\b, %\v\t
    vaddps %\v\u, %\v\t, %\v\t
    vxorps %\v\t, %\v\s, %\v\u
    vpsrad $31, %\v\u, %\v\u
    vpaddd %\v\u, %\v\s, %\v\u
    vpor hostcuda_half_ones(%rip), %\v\u, %\v\u
    vxorps %xmm15, %xmm15, %xmm15
    vcmpneq_oqps %\v\()15, %\v\t, %\v\t
    vblendvps %\v\t, %\v\u, %\v\s, %\v\s
    .endm
)");
#endif

asm(R"(
    .macro hostcuda_add v, s, a, b, c, t, u
    vaddps %\v\b, %\v\a, %\v\s
    .endm
    .macro hostcuda_sub v, s, a, b, c, t, u
    vsubps %\v\b, %\v\a, %\v\s
    .endm
    .macro hostcuda_mul v, s, a, b, c, t, u
    vmulps %\v\b, %\v\a, %\v\s
    .endm

    # The arguments as floats, in registers 0, 1 and perhaps 2; their upper parts in 3, 4 and 5.
    .macro hostcuda_floats halves, floats, three
    vcvtph2ps %\halves\()0, %\floats\()0
    vcvtph2ps %\halves\()1, %\floats\()1
    .if \three
    vcvtph2ps %\halves\()2, %\floats\()2
    .endif
    .endm
    .macro hostcuda_upper_floats extract, halves, floats, three
    \extract $1, %\floats\()0, %\halves\()3
    \extract $1, %\floats\()1, %\halves\()4
    vcvtph2ps %\halves\()3, %\floats\()3
    vcvtph2ps %\halves\()4, %\floats\()4
    .if \three
    \extract $1, %\floats\()2, %\halves\()5
    vcvtph2ps %\halves\()5, %\floats\()5
    .endif
    .endm

    # With half arithmetic in the processor, on halves in registers 0, 1 and perhaps 2.
    .macro hostcuda_halves_fma v
    vfmadd231ph %\v\()0, %\v\()1, %\v\()2
    vmovaps %\v\()2, %\v\()0
    .endm
    .macro hostcuda_halves_add v
    vaddph %\v\()1, %\v\()0, %\v\()0
    .endm
    .macro hostcuda_halves_sub v
    vsubph %\v\()1, %\v\()0, %\v\()0
    .endm
    .macro hostcuda_halves_mul v
    vmulph %\v\()1, %\v\()0, %\v\()0
    .endm

    # An operation on half2 whose arguments are one register of floats each, or two.
    .macro hostcuda_short name, halves, floats, three
    hostcuda_floats \halves, \floats, \three
    hostcuda_\name \floats, 6, 0, 1, 2, 7, 8
    vcvtps2ph $0, %\floats\()6, %\halves\()0
    .endm
    .macro hostcuda_long name, halves, floats, three, extract, insert
    hostcuda_upper_floats \extract, \halves, \floats, \three
    hostcuda_floats \halves, \floats, \three
    hostcuda_\name \floats, 6, 0, 1, 2, 7, 8
    hostcuda_\name \floats, 9, 3, 4, 5, 7, 8
    vcvtps2ph $0, %\floats\()6, %\halves\()0
    vcvtps2ph $0, %\floats\()9, %\halves\()1
    \insert $1, %\halves\()1, %\floats\()0, %\floats\()0
    .endm

    .macro hostcuda_half2 name, vectors, three
    hostcuda_begin hostcuda_half2_\name
)"
#if defined(__AVX512FP16__)
R"(
    hostcuda_halves_\name xmm
    ret
    hostcuda_begin _ZGVbN4\vectors\()_hostcuda_half2_\name
    hostcuda_halves_\name xmm
    ret
    hostcuda_begin _ZGVcN8\vectors\()_hostcuda_half2_\name
    hostcuda_begin _ZGVdN8\vectors\()_hostcuda_half2_\name
    hostcuda_halves_\name ymm
    ret
    hostcuda_begin _ZGVeN16\vectors\()_hostcuda_half2_\name
    hostcuda_halves_\name zmm
    ret
    .endm
)"
#else
R"(
    hostcuda_short \name, xmm, xmm, \three
    ret
    hostcuda_begin _ZGVbN4\vectors\()_hostcuda_half2_\name
    hostcuda_short \name, xmm, ymm, \three
    vzeroupper
    ret
    hostcuda_begin _ZGVcN8\vectors\()_hostcuda_half2_\name
    hostcuda_begin _ZGVdN8\vectors\()_hostcuda_half2_\name
)"
#if defined(__AVX512F__)
R"(
    hostcuda_short \name, ymm, zmm, \three
    ret
    hostcuda_begin _ZGVeN16\vectors\()_hostcuda_half2_\name
    hostcuda_long \name, ymm, zmm, \three, vextracti64x4, vinserti64x4
    ret
    .endm
)"
#else
R"(
    hostcuda_long \name, xmm, ymm, \three, vextracti128, vinserti128
    ret
    .endm
)"
#endif
#endif
R"(
    hostcuda_half2 fma, vvv, 1
    hostcuda_half2 add, vv, 0
    hostcuda_half2 sub, vv, 0
    hostcuda_half2 mul, vv, 0

    # The lower half of a number as the bits of a float, and back.
    hostcuda_begin hostcuda_half_widen
    vcvtph2ps %xmm0, %xmm0
    ret
    hostcuda_begin _ZGVbN4v_hostcuda_half_widen
    vpshufb hostcuda_half_lower(%rip), %xmm0, %xmm0
    vcvtph2ps %xmm0, %xmm0
    ret
    hostcuda_begin _ZGVcN8v_hostcuda_half_widen
    hostcuda_begin _ZGVdN8v_hostcuda_half_widen
    vpshufb hostcuda_half_lower(%rip), %ymm0, %ymm0
    vpermq $8, %ymm0, %ymm0
    vcvtph2ps %xmm0, %ymm0
    ret
    hostcuda_begin hostcuda_half_narrow
    vcvtps2ph $0, %xmm0, %xmm0
    vpmovzxwd %xmm0, %xmm0
    ret
    hostcuda_begin _ZGVbN4v_hostcuda_half_narrow
    vcvtps2ph $0, %xmm0, %xmm0
    vpmovzxwd %xmm0, %xmm0
    ret
    hostcuda_begin _ZGVcN8v_hostcuda_half_narrow
    hostcuda_begin _ZGVdN8v_hostcuda_half_narrow
    vcvtps2ph $0, %ymm0, %xmm0
    vpmovzxwd %xmm0, %ymm0
    ret

    .section .rodata
    .balign 32
hostcuda_half_ones:
    .long 1, 1, 1, 1, 1, 1, 1, 1
hostcuda_half_lower:
    .byte 0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1
    .byte 0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1
    .text
)");

#if defined(__AVX512F__)
asm(R"(
    hostcuda_begin _ZGVeN16v_hostcuda_half_widen
    vpmovdw %zmm0, %ymm0
    vcvtph2ps %ymm0, %zmm0
    ret
    hostcuda_begin _ZGVeN16v_hostcuda_half_narrow
    vcvtps2ph $0, %zmm0, %ymm0
    vpmovzxwd %ymm0, %zmm0
    ret
)");
#endif

#endif
