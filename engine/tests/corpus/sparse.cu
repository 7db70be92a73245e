// Sparse matrices, graphs, histograms, hash tables: indirect accesses and atomic operations.

__device__ unsigned hash(unsigned key) { return key * 2654435761u >> 22; }   // 10 bits

extern "C" {

__global__ void spmv_csr(const int *first, const int *column, const float *value, const float *x, float *y, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = first[row]; i < first[row + 1]; i++) sum += value[i] * x[column[i]];
    y[row] = sum;
}

__global__ void spmv_csr_vector(const int *first, const int *column, const float *value, const float *x, float *y, int rows)
{
    __shared__ volatile float sums[128];
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = first[row] + lane; i < first[row + 1]; i += 32) sum += value[i] * x[column[i]];
    sums[threadIdx.x] = sum;
    __syncwarp();
    for (int stride = 16; stride > 0; stride /= 2) {
        if (lane < stride) sums[threadIdx.x] += sums[threadIdx.x + stride];
        __syncwarp();
    }
    if (lane == 0) y[row] = sums[threadIdx.x];
}

__global__ void spmv_ell(const int *column, const float *value, const float *x, float *y, int rows, int width)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < width; i++) {
        int at = i * rows + row;                       // column by column
        if (column[at] >= 0) sum += value[at] * x[column[at]];
    }
    y[row] = sum;
}

__global__ void spmv_coo(const int *row, const int *column, const float *value, const float *x, float *y, int count)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&y[row[i]], value[i] * x[column[i]]);
}

// One level: the distance of all neighbours of the frontier that have none.
__global__ void bfs_level(const int *first, const int *neighbour, int *distance, const int *frontier, int size, int *next,
                          int *next_size, int level)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int node = frontier[i];
    for (int e = first[node]; e < first[node + 1]; e++)
        if (atomicCAS(&distance[neighbour[e]], -1, level) == -1) next[atomicAdd(next_size, 1)] = neighbour[e];
}

__global__ void relax_edges(const int *from, const int *to, const int *length, int *distance, int *changed, int edges)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= edges || distance[from[e]] == INT_MAX) return;
    int through = distance[from[e]] + length[e];
    if (atomicMin(&distance[to[e]], through) > through) *changed = 1;
}

__global__ void pagerank_step(const int *first, const int *source, const int *degree, const float *rank, float *next, int n,
                              float damping)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    float sum = 0.0f;
    for (int e = first[node]; e < first[node + 1]; e++) sum += rank[source[e]] / degree[source[e]];
    next[node] = (1.0f - damping) / n + damping * sum;
}

__global__ void floyd_warshall(float *distance, int n, int through)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j < n && i != through && j != through)         // those stay as they are, and others read them
        distance[i * n + j] = fminf(distance[i * n + j], distance[i * n + through] + distance[through * n + j]);
}

__global__ void histogram_global(const unsigned char *x, unsigned *counts, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&counts[x[i]], 1u);
}

__global__ void histogram_shared(const unsigned char *x, unsigned *counts, int n)
{
    __shared__ unsigned mine[256];
    for (int v = threadIdx.x; v < 256; v += blockDim.x) mine[v] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int v = threadIdx.x; v < 256; v += blockDim.x)
        if (mine[v]) atomicAdd(&counts[v], mine[v]);
}

__global__ void hash_insert(const unsigned *keys, unsigned *table, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (unsigned slot = hash(keys[i]);; slot = (slot + 1) & 1023) {
        unsigned before = atomicCAS(&table[slot], 0u, keys[i]);
        if (before == 0 || before == keys[i]) return;
    }
}

__global__ void hash_lookup(const unsigned *table, const unsigned *keys, int *found, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned slot = hash(keys[i]);
    while (table[slot] != 0 && table[slot] != keys[i]) slot = (slot + 1) & 1023;
    found[i] = table[slot] == keys[i];
}

}
