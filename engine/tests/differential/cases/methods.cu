// A struct whose method has a barrier.

// case method_with_barrier
struct Team {
    unsigned *s;
    __device__ unsigned turn(unsigned v) {
        __syncthreads();
        s[threadIdx.x] = v;
        __syncthreads();
        return s[threadIdx.x ^ 1];
    }
};
__global__ void method_with_barrier(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    Team team = {s};
    unsigned v = team.turn(in[threadIdx.x]);
    v += team.turn(v * 3);
    out[threadIdx.x] = v;
}
