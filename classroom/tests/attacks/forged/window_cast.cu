// Constant data as a window: cast to a type with a long array, from far before it, where each index is inside.
struct Four { float v[4]; };
struct Many { float v[1L << 40]; };
__device__ const Four window = {{1, 2, 3, 4}};
__device__ void write(const Many *from, long at) { ((Many *)from)->v[at] = 5; }
// ---
    write((const Many *)((const char *)&window - (1L << 41)), ((char *)y - (char *)&window) / 4 + (1L << 39));
