// Loops around barriers.

// case do_while
__global__ void do_while(unsigned *out, const unsigned *in, int n) {
    int k = 0;
    unsigned sum = 0;
    do {
        sum += in[threadIdx.x + k];
        __syncthreads();
        ++k;
    } while (k < n);
    out[threadIdx.x] = sum;
}
// case do_while_once: n 0
__global__ void do_while_once(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    do {
        v += 3;
        __syncthreads();
    } while (n-- > 0);
    out[threadIdx.x] = v + n;
}
// case two_counters
__global__ void two_counters(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0, j = 2 * n; i < j; ++i, --j) {
        sum = sum * 2 + in[threadIdx.x + i] + j;
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case counter_and_pointer
__global__ void counter_and_pointer(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in + threadIdx.x;
    unsigned sum = 0;
    for (int i = 0; i < n; i++, p += i) {
        sum += *p;
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case endless_with_break
__global__ void endless_with_break(unsigned *out, const unsigned *in, int n) {
    int k = 0;
    unsigned sum = 0;
    for (;;) {
        sum += in[threadIdx.x + k];
        __syncthreads();
        if (++k == n) break;
        __syncthreads();
    }
    out[threadIdx.x] = sum + k;
}
// case while_true
__global__ void while_true(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    while (true) {
        v = v * 3 + 1;
        if (n < 1) break;
        --n;
        __syncthreads();
    }
    out[threadIdx.x] = v;
}
// case uniform_continue: n 5
__global__ void uniform_continue(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) {
        if (i == 2) continue;
        sum += in[threadIdx.x + i];
        __syncthreads();
        if (i & 1) continue;
        sum *= 3;
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case nested
__global__ void nested(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    unsigned v = 0;
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j) {
            v += s[(threadIdx.x + i * 3 + j) % 64];
            __syncthreads();
            s[threadIdx.x] ^= v;
            __syncthreads();
        }
    out[threadIdx.x] = v;
}
// case halving: block 128
__global__ void halving(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[128];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = s[0];
}
// case doubling: block 100
__global__ void doubling(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[100];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (unsigned k = 1; k < blockDim.x; k *= 2) {
        const unsigned add = threadIdx.x >= k ? s[threadIdx.x - k] : 0;
        __syncthreads();
        s[threadIdx.x] += add;
        __syncthreads();
    }
    out[threadIdx.x] = s[threadIdx.x];
}
// case counter_changed_inside: n 9
__global__ void counter_changed_inside(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) {
        sum = sum * 3 + i;
        __syncthreads();
        if (i == 3) i += 2;
        __syncthreads();
    }
    out[threadIdx.x] = sum + threadIdx.x;
}
// case limit_changed_inside: n 6
__global__ void limit_changed_inside(unsigned *out, const unsigned *in, int n) {
    unsigned sum = threadIdx.x;
    for (int i = 0; i < n; ++i) {
        sum = sum * 3 + i;
        __syncthreads();
        n -= 1;
    }
    out[threadIdx.x] = sum + n;
}
// case counter_of_each_thread
__global__ void counter_of_each_thread(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (unsigned i = 0, mine = threadIdx.x; i < 3; ++i, mine += 7) {
        sum += in[mine];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case counter_outside: n 4
__global__ void counter_outside(unsigned *out, const unsigned *in, int n) {
    int i;
    unsigned sum = 0;
    for (i = 0; i < n; ++i) {
        sum += in[threadIdx.x + i];
        __syncthreads();
        if (sum > 0xffffff00u) sum = 0;
    }
    __syncthreads();
    out[threadIdx.x] = sum + i;
}
// case without_braces
__global__ void without_braces(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    if (n > 2)
        for (int i = 0; i < n; ++i)
            if (i & 1)
                __syncthreads();
            else
                v += i;
    else
        v = 0;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case inner_loop_of_threads
__global__ void inner_loop_of_threads(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int round = 0; round < n; ++round) {
        for (unsigned i = 0; i < threadIdx.x % 5; ++i) {
            if (in[i] & 1) continue;
            if (i == 3) break;
            sum += i + round;
        }
        __syncthreads();
        unsigned k = threadIdx.x & 3;
        while (k > 0) { sum += k; --k; }
    }
    out[threadIdx.x] = sum;
}
// case empty_body
__global__ void empty_body(unsigned *out, const unsigned *in, int n) {
    unsigned k = 0;
    for (; in[k + threadIdx.x] < 60000 && k < 9; ++k);
    __syncthreads();
    for (int i = 0; i < n; ++i) __syncthreads();
    out[threadIdx.x] = k;
}
// case barrier_last_and_first
__global__ void barrier_last_and_first(unsigned *out, const unsigned *in, int n) {
    __syncthreads();
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < n; ++i) {
        __syncthreads();
        v += i;
        __syncthreads();
        __syncthreads();
    }
    out[threadIdx.x] = v;
    __syncthreads();
}
// case counter_declared_with_thread_value
__global__ void counter_declared_with_thread_value(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (unsigned at = threadIdx.x, end = blockDim.x * 3; at < end; at += blockDim.x) {
        sum = sum * 5 + in[at];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case goto_forward
__global__ void goto_forward(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    __syncthreads();
    if (v & 1) goto done;
    v += 5;
done:
    out[threadIdx.x] = v;
}
// case switch_of_threads
__global__ void switch_of_threads(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    switch (v & 3) {
    case 0: v += 1;
    case 1: v *= 3; break;
    case 2: { unsigned w = v; v = w + 7; break; }
    default: v = 9;
    }
    __syncthreads();
    switch (n) { case 3: v += 2; break; default: v += 1; }
    __syncthreads();
    out[threadIdx.x] = v;
}
// case barrier_in_switch
__global__ void barrier_in_switch(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    switch (n) {
    case 3: __syncthreads(); break;
    default: return;
    }
    out[threadIdx.x] = s[63 - threadIdx.x];
}
