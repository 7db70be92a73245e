// Sorting, merging, searching.

extern "C" {

__global__ void bitonic_sort(float *x, int n)
{
    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 2; k <= n; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            int other = t ^ j;
            if (other > t && ((t & k) == 0) == (s[t] > s[other])) {
                float swap = s[t];
                s[t] = s[other];
                s[other] = swap;
            }
            __syncthreads();
        }
    x[t] = s[t];
}

__global__ void odd_even_sort(int *x, int n)
{
    for (int step = 0; step < n; step++) {
        int i = 2 * threadIdx.x + (step & 1);
        if (i + 1 < n && x[i] > x[i + 1]) {
            int swap = x[i];
            x[i] = x[i + 1];
            x[i + 1] = swap;
        }
        __syncthreads();
    }
}

__global__ void rank_sort(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int rank = 0;
    for (int j = 0; j < n; j++) rank += x[j] < x[i] || (x[j] == x[i] && j < i);
    y[rank] = x[i];
}

// One bit: zeros before ones, in their order.
__global__ void radix_pass(const unsigned *x, unsigned *y, int bit, int n)
{
    extern __shared__ int zeros[];
    int t = threadIdx.x, one = x[t] >> bit & 1;
    zeros[t] = !one;
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        int other = t >= offset ? zeros[t - offset] : 0;
        __syncthreads();
        zeros[t] += other;
        __syncthreads();
    }
    y[one ? t - zeros[t] + zeros[n - 1] : zeros[t] - 1] = x[t];
}

__global__ void counting_sort(const unsigned char *x, unsigned char *y, int n)
{
    __shared__ int count[256], first[256];
    count[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&count[x[i]], 1);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int v = 0, sum = 0; v < 256; v++) {
            first[v] = sum;
            sum += count[v];
        }
    __syncthreads();
    for (int i = 0; i < count[threadIdx.x]; i++) y[first[threadIdx.x] + i] = threadIdx.x;
}

// Each thread merges `each` elements; where it begins, it finds by bisection (the merge path).
__global__ void merge_path(const int *a, int m, const int *b, int n, int *out, int each)
{
    int diagonal = min((int)(blockIdx.x * blockDim.x + threadIdx.x) * each, m + n);
    int low = max(0, diagonal - n), high = min(diagonal, m);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    for (int i = low, j = diagonal - low, end = min(diagonal + each, m + n); i + j < end;) {
        bool first = j >= n || (i < m && a[i] <= b[j]);
        out[i + j] = first ? a[i] : b[j];
        first ? i++ : j++;
    }
}

__global__ void binary_search(const int *sorted, int n, const int *key, int *at, int keys)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= keys) return;
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] < key[i]) low = middle + 1;
        else high = middle;
    }
    at[i] = low;
}

// Quicksort's partition of a block's elements: those below the pivot from the left, the others from the right.
__global__ void partition(const int *x, int *y, int *counts, int pivot, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (x[i] < pivot) y[atomicAdd(&counts[0], 1)] = x[i];
    else y[n - 1 - atomicAdd(&counts[1], 1)] = x[i];
}

}
