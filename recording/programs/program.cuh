// What the programs share: the arguments, a check of CUDA's calls, the clock, and the line that a program prints.
//
//     PROGRAM [SIZE [REPEATS]]
//
// Without arguments a program has a size meant to take 0.1 to 10 ms on a large GPU, and is timed 20 times, after 95
// launches in which the GPU raises its clock. Each time it is launched until a millisecond has passed: the events
// around a single short launch would time the host's calls, too. A launch finds in the L2 cache what the one before it
// has left. With a SIZE and without REPEATS there is one launch: a small size is for counting on a processor.
//
// A program checks its result. It prints one line: its name, the size, the name of the kernel, and the median time of a
// launch in milliseconds, separated by commas. If a call fails or the result is wrong, it exits with status 1.

#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define CUDA(call) succeed(call, #call, __LINE__)

inline void succeed(cudaError_t status, const char *call, int line)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(status));
    exit(1);
}

inline void require(bool right, const char *what)
{
    if (right) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

struct Arguments {
    int size, repeats;

    // The size has to be a multiple of `multiple`: the kernels have no code for incomplete tiles.
    Arguments(int argc, char **argv, int usual, int multiple)
        : size(argc > 1 ? atoi(argv[1]) : usual), repeats(argc > 2 ? atoi(argv[2]) : argc > 1 ? 1 : 20)
    {
        if (size > 0 && size % multiple == 0 && repeats > 0) return;
        fprintf(stderr, "usage: %s [SIZE [REPEATS]], SIZE a multiple of %d\n", argv[0], multiple);
        exit(1);
    }
};

// Small integers, whose sums are exact in float in any order.
inline std::vector<float> small_integers(size_t count)
{
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = (float)(i * 2654435761u % 1021 % 8);
    return values;
}

inline float *on_device(const std::vector<float> &values)
{
    float *copy;
    CUDA(cudaMalloc(&copy, values.size() * sizeof(float)));
    CUDA(cudaMemcpy(copy, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return copy;
}

// An array that holds NaN: an element that is not written cannot pass for a result.
inline float *poisoned(size_t count)
{
    float *array;
    CUDA(cudaMalloc(&array, count * sizeof(float)));
    CUDA(cudaMemset(array, 0xff, count * sizeof(float)));
    return array;
}

inline std::vector<float> on_host(const float *array, size_t count)
{
    std::vector<float> copy(count);
    CUDA(cudaMemcpy(copy.data(), array, count * sizeof(float), cudaMemcpyDeviceToHost));
    return copy;
}

// The median time of a launch [ms].
template <class Launch>
float median_ms(int repeats, Launch launch)
{
    cudaEvent_t start, end;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&end));
    for (int i = 0; i < 5 * (repeats - 1); ++i)
        launch();
    CUDA(cudaGetLastError());
    auto run = [&](int launches) {
        float ms;
        CUDA(cudaEventRecord(start));
        for (int i = 0; i < launches; ++i)
            launch();
        CUDA(cudaEventRecord(end));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&ms, start, end));
        return ms / launches;
    };
    const int launches = repeats > 1 ? (int)std::max(1.0f, 1 / run(20)) : 1;
    std::vector<float> times(repeats);
    for (float &ms : times)
        ms = run(launches);
    CUDA(cudaGetLastError());
    std::sort(times.begin(), times.end());
    return times[repeats / 2];
}
