// Boxes of tensors with 1 to 5 dimensions go to shared memory and back, with every swizzle, and reach beyond the tensor: what is
// in shared memory, in the tensor that is written and in one to which it is added is compared with loops over the elements.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

const int MOST = 32 * 2 * 3 * 2 * 2;    // elements of the largest box

__device__ unsigned address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }

#define AT_1 "{%1}"
#define AT_2 "{%1, %2}"
#define AT_3 "{%1, %2, %3}"
#define AT_4 "{%1, %2, %3, %4}"
#define AT_5 "{%1, %2, %3, %4, %5}"
#define COORDINATES "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
#define MOVE(rank) \
    case rank: \
        if (how == 0) \
            asm volatile("cp.async.bulk.tensor." #rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes " \
                         "[%6], [%0, " AT_##rank "], [%7];" :: COORDINATES, "r"(box), "r"(barrier) : "memory"); \
        else if (how == 1) \
            asm volatile("cp.async.bulk.tensor." #rank "d.global.shared::cta.tile.bulk_group [%0, " AT_##rank "], [%6];" \
                         :: COORDINATES, "r"(box) : "memory"); \
        else \
            asm volatile("cp.reduce.async.bulk.tensor." #rank "d.global.shared::cta.add.tile.bulk_group [%0, " AT_##rank "], [%6];" \
                         :: COORDINATES, "r"(box) : "memory"); \
        break;

struct Place {
    int at[5];
};

__device__ void move(int how, int rank, const void *map, const int (&at)[5], unsigned box, unsigned barrier)
{
    switch (rank) {
        MOVE(1)
        MOVE(2)
        MOVE(3)
        MOVE(4)
        MOVE(5)
    }
}

__global__ void pass(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                     const __grid_constant__ CUtensorMap sum, int rank, int elements, Place from, Place to, int *raw)
{
    __shared__ alignas(1024) int box[MOST];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&barrier)) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(address(&barrier)), "r"(elements * 4) : "memory");
        move(0, rank, &in, from.at, address(box), address(&barrier));
    }
    __syncthreads();
    asm volatile("{.reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra WAIT;}"
                 :: "r"(address(&barrier)) : "memory");
    for (int i = threadIdx.x; i < elements; i += blockDim.x)
        raw[i] = box[i];
    if (threadIdx.x == 0) {
        move(1, rank, &out, to.at, address(box), 0);
        move(2, rank, &sum, to.at, address(box), 0);
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A tensor of these sizes and its map with boxes of those sizes
struct Tensor {
    std::vector<int> values;
    int *on_device;
    CUtensorMap map;

    Tensor(int rank, const std::vector<int> &sizes, const std::vector<int> &boxes, int swizzle, int factor)
    {
        size_t count = 1;
        cuuint64_t shape[5], pitches[5];
        cuuint32_t box[5], steps[5] = {1, 1, 1, 1, 1};
        for (int i = 0; i < rank; i++) {
            shape[i] = sizes[i];
            box[i] = boxes[i];
            count *= sizes[i];
            pitches[i] = count * sizeof(int);
        }
        for (size_t i = 0; i < count; i++)
            values.push_back(i * factor % 1013 + 1);
        cudaMalloc(&on_device, count * sizeof(int));
        cudaMemcpy(on_device, values.data(), count * sizeof(int), cudaMemcpyHostToDevice);
        void *function;
        cudaDriverEntryPointQueryResult found;
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
        ((decltype(&cuTensorMapEncodeTiled))function)(
            &map, CU_TENSOR_MAP_DATA_TYPE_INT32, rank, on_device, shape, pitches, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
            (CUtensorMapSwizzle)swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }

    bool is_on_device() const
    {
        std::vector<int> got(values.size());
        cudaMemcpy(got.data(), on_device, got.size() * sizeof(int), cudaMemcpyDeviceToHost);
        return got == values;
    }
};

int main()
{
    int *raw, bad = 0, cases = 0;
    cudaMalloc(&raw, MOST * sizeof(int));
    for (int rank = 1; rank <= 5; rank++)
        for (int swizzle = 0; swizzle < 4; swizzle++) {
            std::vector<int> sizes{40, 6, 5, 3, 4}, boxes{4 << swizzle, 2, 3, 2, 2};
            sizes.resize(rank);
            boxes.resize(rank);
            const Place from{{-4, 5, 1, -1, 3}}, to{{36, -1, 3, 2, 0}};
            Tensor in(rank, sizes, boxes, swizzle, 7), out(rank, sizes, boxes, swizzle, 11), sum(rank, sizes, boxes, swizzle, 13);
            int elements = 1;
            for (int size : boxes)
                elements *= size;
            std::vector<int> expected(elements), got(elements);
            for (int i = 0; i < elements; i++) {
                size_t source = 0, target = 0, pitch = 1;
                bool is_in = true, is_out = true;
                for (int d = 0, rest = i; d < rank; rest /= boxes[d], pitch *= sizes[d], d++) {
                    const int x = from.at[d] + rest % boxes[d], y = to.at[d] + rest % boxes[d];
                    is_in &= x >= 0 && x < sizes[d];
                    is_out &= y >= 0 && y < sizes[d];
                    source += x * pitch;
                    target += y * pitch;
                }
                const int value = is_in ? in.values[source] : 0;
                const int bytes = i * 4, turned = bytes ^ (bytes >> 7 & ((1 << swizzle) - 1)) << 4;
                expected[turned / 4] = value;
                if (is_out) {
                    out.values[target] = value;
                    sum.values[target] += value;
                }
            }
            pass<<<1, 64>>>(in.map, out.map, sum.map, rank, elements, from, to, raw);
            cudaMemcpy(got.data(), raw, elements * sizeof(int), cudaMemcpyDeviceToHost);
            const bool right = got == expected && out.is_on_device() && sum.is_on_device() && in.is_on_device();
            if (!right)
                printf("%d dimensions, swizzle %d: %d %d %d\n", rank, swizzle, got == expected, out.is_on_device(), sum.is_on_device());
            bad += !right;
            cases++;
        }
    printf("%s of %d cases\n", bad ? "FAIL" : "PASS", cases);
    return bad > 0;
}
