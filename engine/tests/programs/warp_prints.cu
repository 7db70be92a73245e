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

int main() {
    rows<<<1, 4>>>();
    cudaDeviceSynchronize();
}
