// The lanes of a warp print statement by statement, also in a loop and behind branches that only some of them take.
#include <cstdio>

__global__ void rows() {
    const int lane = threadIdx.x;
    for (int row = 0; row < 2; row++) {
        if (lane == 2) printf("row %d:", row);
        printf(" %d", lane + row);
        if (lane == 0) printf(";");
        if (lane == 1) printf("\n");
    }
    if (lane == 1)
        for (int i = 0; i < 3; i++) printf("%d-", i);
    printf("%d ", lane);
}

// Lanes that wait to print do not keep others from what they hold.
__device__ int lock = 0, holders = 0;

__global__ void locked() {
    for (bool done = false; !done;) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence();
            printf("%d", holders);
            holders++;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}

int main() {
    rows<<<1, 4>>>();
    cudaDeviceSynchronize();
    printf("\n");
    locked<<<1, 7>>>();
    cudaDeviceSynchronize();
}
