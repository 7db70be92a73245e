// Launch bounds that are computed, which would be while the module is loaded.
__device__ int bound() { return clock() ? 64 : 32; }
extern "C" __global__ void __launch_bounds__(bound()) other(float *y) { y[0] = 1; }
// ---
