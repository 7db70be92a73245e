// Kernels without barriers, whose loops may be exchanged with the loop over neighbors.

// case around: block 10 7
__global__ void around(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x, h = threadIdx.y;
    if (h < 6) {
        if (w < 9) {
            unsigned sum = 0;
            for (int i = 0; i < n; ++i) sum += in[i * 16 + w + h];
            out[h * 16 + w] = sum;
        }
    }
}
// case shadowed: block 20, n 5
__global__ void shadowed(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    if (w < n + 4) {
        int n = 2;
        for (int i = 0; i < n; ++i) out[w] += in[w + i];
    }
}
// case hidden_by_a_local: block 20
__global__ void hidden_by_a_local(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x, h = n;
    if (w < 17) {
        const int h = w + 3;
        for (int i = 0; i < n; ++i) out[w] += in[h + i];
    }
    out[w] += h;
}
// case rows_of_ten: block 10 9
__global__ void rows_of_ten(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x, t = threadIdx.x + threadIdx.y * blockDim.x;
    unsigned sum = 0;
    for (int i = 0; i < t / 32; ++i) sum += in[w + i];
    out[threadIdx.y * 16 + w] = sum;
}
// case by_row: block 16 5
__global__ void by_row(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    for (unsigned i = 0; i < threadIdx.y; ++i) out[threadIdx.y * 16 + w] += in[w + i] + n;
}
// case by_warp: block 72
__global__ void by_warp(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    for (unsigned i = 0; i < threadIdx.x / 32; ++i) out[w] += in[w + i] + n;
}
// case by_itself: block 40
__global__ void by_itself(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    for (int i = 0; i < w; ++i) out[w] += in[w + i] + n;
}
// case holes: block 37
__global__ void holes(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned sum = w;
    if (in[w] & 1u) return;
    if (w % 7 == 3) return;
    for (int i = 0; i < n; ++i) sum = sum * 31u + in[w + i];
    out[w] = sum;
}
// case other_name: block 24
__global__ void other_name(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned *again = out;
    for (int i = 0; i < n; ++i) {
        out[w] = in[w + i] + i;
        again[w] += out[w] * 3u;
        out[w] ^= again[w] >> 1;
    }
}
// case same_memory: block 40
__global__ void same_memory(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    const unsigned *own = out + 64;
    out[w + 64] = in[w];
    for (int i = 0; i < n; ++i) out[w + 64] += own[w] + in[w + i];
    out[w] = own[w];
}
// case divides_by_what_is_left: block 16 4
__global__ void divides_by_what_is_left(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x, h = threadIdx.y;
    if (h == 2 || w == 5) return;
    const int share = 12 / (h - 2), mine = 60 / (w - 5);
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum += in[w + i] * 3u + share;
    out[h * 16 + w] = sum + share + mine;
}
// case divides_in_a_loop: block 16, n 0 2
__global__ void divides_in_a_loop(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    for (int i = 0; i < n; ++i) {
        const int part = 12 / n;
        out[w] += in[w + i] + part;
    }
}
// case uniform_return: block 40, grid 3, n 1 3
__global__ void uniform_return(unsigned *out, const unsigned *in, int n) {
    const int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x >= n) return;
    const int begin = 7 % n;
    for (int i = begin; i < 5; i += 2) out[w] += in[w + i];
}
// case walks: block 33
__global__ void walks(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned sum = 0;
    for (int i = 0; i < n; ++i, in += 40) sum += in[w];
    for (int i = 0; i < n; ++i) {
        sum ^= in[w] + i;
        in += 3;
    }
    out[w] = sum + in[w];
}
// case halves: block 40, n 9
__global__ void halves(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned sum = 1;
    for (int i = n; i > 0; i /= 2)
        for (int j = i; j >= 0; j -= 3) {
            const int at = i * 9 + j;
            sum = sum * 5u + in[at + w];
        }
    if (sum & 4u) sum = in[w];
    out[w] = sum;
}
// case products: block 19 3
__global__ void products(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x, h = threadIdx.y;
    float sum = 0.1f, other = 1.7f;
    for (int i = 0; i < n; ++i)
        #pragma unroll
        for (int j = 0; j < 3; ++j) {
            const float x = in[(i + h) * 20 + w + j];
            sum += x * 0.3f;
            other = other - x * (float)in[i + j];
        }
    out[h * 32 + w] = __float_as_uint(sum) ^ __float_as_uint(other);
}
// case counter_of_the_threads: block 18, n 4
__global__ void counter_of_the_threads(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    int far = w;
    for (int i = 0; i < n; ++i) {
        far += 2;
        out[w] += in[far + i];
    }
}
// case changed_by_address: block 20
__global__ void changed_by_address(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned sum = 5, *p = &sum;
    for (int i = 0; i < n; ++i) {
        sum += in[w + i];
        *p ^= in[w];
    }
    out[w] = sum;
}
// case no_rounds: block 20, n 0
__global__ void no_rounds(unsigned *out, const unsigned *in, int n) {
    const int w = threadIdx.x;
    unsigned sum = 5;
    for (int i = 0; i < n; ++i) sum += in[w + i];
    if (w < 13) out[w] = sum;
}
