// Inline PTX other than mma of half.
#include <cuda_bf16.h>

extern "C" __global__ void registers(unsigned *out, const float *x, const unsigned long long *l)
{
    unsigned lane, warp, threads, sum, low, packed, shifted, picked, *at = out + threadIdx.x * 15;
    unsigned short halves[2];
    unsigned long long wide;
    float y;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;\n\tmov.u32 %1, %%ntid.x;" : "=r"(warp), "=r"(threads));
    asm("add.s32 %0, %1, %2; mul.lo.u32 %0, %0, 3;" : "=r"(sum) : "r"(lane), "r"(-7));
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves[0]), "=h"(halves[1]) : "r"(sum));
    asm("mov.b32 %0, {%2, %1};" : "=r"(packed) : "h"(halves[0]), "h"(halves[1]));
    asm("mad.lo.u64 %0, %1, 0x100000001, 5;" : "=l"(wide) : "l"(l[0]));
    asm("{ .reg .u32 t<2>; .reg .pred p; mov.u32 t0, 40; setp.lt.u32 p, %1, 16; @p mov.u32 t0, 4; "
        "@!p mov.u32 t1, t0; shl.b32 %0, %1, t0; }" : "=r"(shifted) : "r"(lane));
    asm("fma.rn.f32 %0, %1, %1, 0f3F000000;" : "=f"(y) : "f"(x[threadIdx.x]));
    asm("{ .reg .pred p; setp.ge.f32 p, %1, 0f00000000; selp.u32 %0, 7, 9, p; }" : "=r"(picked) : "f"(x[threadIdx.x]));
    asm volatile("bar.sync 0; membar.cta; fence.acq_rel.gpu;" ::: "memory");
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(low));
    float power;
    asm("{ .reg .f32 t; mul.f32 t, %1, 0f40000000; ex2.approx.ftz.f32 %0, t; }" : "=f"(power) : "f"(x[threadIdx.x]));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(at[12]) : "f"(x[threadIdx.x]));
    asm("{ .reg .pred p; setp.ne.f32 p, %1, %1; selp.u32 %0, 1, 0, p; }" : "=r"(at[13]) : "f"(NAN));
    asm("abs.f32 %0, %1;" : "=f"(((float *)at)[14]) : "f"(-0.0f));
    at[11] = __float_as_uint(power);
    at[0] = lane; at[1] = warp; at[2] = threads; at[3] = sum; at[4] = packed; at[5] = (unsigned)wide;
    at[6] = (unsigned)(wide >> 32); at[7] = shifted; at[8] = __float_as_uint(y); at[9] = picked; at[10] = low;
}

// Two warps meet at barrier 1 while the third one waits at barrier 2 for what the others do before.
extern "C" __global__ void barriers(int *out)
{
    __shared__ int s[96];
    s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        int other = s[threadIdx.x ^ 32];
        asm volatile("bar.sync 1, %0;" :: "r"(64) : "memory");
        s[threadIdx.x] = 2 * other;
        asm volatile("bar.arrive 2, 96;");
        out[threadIdx.x] = other;
    } else {
        asm volatile("bar.sync 2, 96;" ::: "memory");
        out[threadIdx.x] = s[threadIdx.x - 64] + s[threadIdx.x - 32];
    }
}

extern "C" __global__ void copies(const float *x, float *y, int n)
{
    __shared__ __align__(16) float s[256];
    extern __shared__ float d[];
    unsigned to = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 4), dynamic;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(dynamic) : "l"(d + threadIdx.x));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(x + threadIdx.x * 4) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1 + 8], %2, %3;" ::
                 "r"(dynamic), "l"(x + threadIdx.x), "n"(4), "r"(threadIdx.x < 20 ? 4 : 0));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0 + 512], [%1], 16; }"
                 :: "r"(to), "l"(x + threadIdx.x * 4), "r"((int)(threadIdx.x < n)));
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\ncp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[threadIdx.x] = s[127 - threadIdx.x];
    y[32 + threadIdx.x] = d[31 - threadIdx.x];
    y[64 + threadIdx.x] = threadIdx.x < n ? s[128 + threadIdx.x * 4] : 0.0f;
    float4 v;
    unsigned two, one;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(x + threadIdx.x * 4));
    __syncthreads();
    asm volatile("st.shared.v2.f32 [%0 + 8], {%1, %2};" :: "r"(to), "f"(v.x), "f"(v.w) : "memory");
    __syncthreads();
    asm volatile("ld.shared::cta.u32 %0, [%1+12];" : "=r"(two) : "r"(to));
    asm volatile("ld.shared.u32 %0, [%1 + -8];" : "=r"(one) : "r"(to + 16));
    asm volatile("st.global.cs.f32 [%0], %1;" :: "l"(y + 128 + threadIdx.x), "f"(__uint_as_float(two)) : "memory");
    asm volatile("st.global.u32 [%0], %1;" :: "l"(y + 160 + threadIdx.x), "r"(one) : "memory");
    y[96 + threadIdx.x] = __isShared(s) + 2 * __isShared(d) + 4 * __isGlobal(x) + 8 * __isShared(x);
}

// The fragments of a 16x16 tile (and its transpose) of bfloat16 times 8 columns.
extern "C" __global__ void matrices(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, unsigned *raw)
{
    __shared__ __align__(16) __nv_bfloat16 as[16][24], bs[16][8];
    for (int i = threadIdx.x; i < 256; i += 32) as[i / 16][i % 16] = a[i];
    for (int i = threadIdx.x; i < 128; i += 32) bs[i / 8][i % 8] = b[i];
    __syncwarp();
    unsigned fa[4], fb[2], one;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned from = (unsigned)__cvta_generic_to_shared(&as[threadIdx.x % 16][threadIdx.x / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(from));
    from = (unsigned)__cvta_generic_to_shared(&bs[threadIdx.x % 16][0]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];"
                 : "=r"(fb[0]), "=r"(fb[1]) : "r"(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1 + 128];" : "=r"(one) : "r"(from));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]));
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
    raw[threadIdx.x] = one;
}

// tf32: 16 x 8 times 8 x 8, and its first half again.
extern "C" __global__ void tf32(const unsigned *a, const unsigned *b, float *c)
{
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned fa[4], fb[2];
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 4; i++) fa[i] = a[(g + i % 2 * 8) * 8 + t + i / 2 * 4];
    for (int i = 0; i < 2; i++) fb[i] = b[(t + i * 4) * 8 + g];
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]));
    for (int i = 0; i < 4; i++) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}
