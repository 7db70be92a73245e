// Stores that go around what counts them.
typedef float four __attribute__((vector_size(16)));
__device__ void store(float *to, float value) { __builtin_nontemporal_store(value, to); }
// ---
    store(y, 0);
