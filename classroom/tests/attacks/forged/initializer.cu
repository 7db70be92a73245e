// A variable whose value is computed while the module is loaded, by a function with a name like those of the engine.
__device__ long anchor[2];
__device__ __noinline__ int my_hostcuda_register_x(volatile long *p) { p[-696] = 0; return 1; }
__device__ int value = my_hostcuda_register_x(anchor);
// ---
    if (!value) return;
