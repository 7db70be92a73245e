#pragma once
#include <cstdio>
void other(int *x);
__global__ void everywhere(int *x);
extern __device__ int total;
extern __constant__ int factor[2];
__device__ int far(int v);
