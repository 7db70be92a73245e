// The same at a fixed distance: no index, and no address that is computed.
struct Four { float v[4]; };
__device__ const Four window = {{1, 2, 3, 4}};
// ---
    ((Four *)((char *)&window - 4096))->v[0] = 5;
