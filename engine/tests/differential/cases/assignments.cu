// Changes of a variable that do not look like `name op= value`.

struct Point { unsigned x, y; };

// case member_in_parentheses
__global__ void member_in_parentheses(unsigned *out, const unsigned *in, int n) {
    Point v = {1, 2};
    __syncthreads();
    (v).x += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v.x;
}
// case name_in_parentheses
__global__ void name_in_parentheses(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    (v) += threadIdx.x;
    __syncthreads();
    ((v)) *= 3;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case element_in_parentheses
__global__ void element_in_parentheses(unsigned *out, const unsigned *in, int n) {
    unsigned a[2] = {4, 5};
    (a)[1] += threadIdx.x;
    __syncthreads();
    (a[0]) = a[1] + 1;
    *(a + 1) = 9;
    __syncthreads();
    out[threadIdx.x] = a[0] * 10 + a[1];
}
// case index_first
__global__ void index_first(unsigned *out, const unsigned *in, int n) {
    unsigned a[4] = {4, 5, 6, 7};
    2 [a] += threadIdx.x;
    __syncthreads();
    (threadIdx.x & 3)[a] ^= 64;
    __syncthreads();
    out[threadIdx.x] = a[0] + a[1] * 2 + a[2] * 3 + a[3] * 4;
}
// case ternary_as_lvalue
__global__ void ternary_as_lvalue(unsigned *out, const unsigned *in, int n) {
    unsigned a = 1, b = 2;
    (threadIdx.x & 1 ? a : b) = in[threadIdx.x];
    __syncthreads();
    (threadIdx.x > 9 ? a : b) += 5;
    __syncthreads();
    out[threadIdx.x] = a * 7 + b;
}
// case comma_as_lvalue
__global__ void comma_as_lvalue(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, b = 2;
    (a++, b) += 3;  // not `+= a`: g++ reads it after `a++`, against C++17
    __syncthreads();
    a = (b += 2, b * 2);
    __syncthreads();
    out[threadIdx.x] = a * 7 + b;
}
// case chained
__global__ void chained(unsigned *out, const unsigned *in, int n) {
    unsigned a, b, c;
    a = b = c = threadIdx.x;
    __syncthreads();
    a += b -= c *= 2;
    __syncthreads();
    out[threadIdx.x] = a + b * 3 + c * 5;
}
// case assigned_assignment
__global__ void assigned_assignment(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x;
    (a = 3) += threadIdx.x;
    __syncthreads();
    ++(a *= 2);
    __syncthreads();
    out[threadIdx.x] = a;
}
// case step_in_index
__global__ void step_in_index(unsigned *out, const unsigned *in, int n) {
    unsigned at = threadIdx.x & 3, a[8] = {};
    a[at++] = 1;
    a[++at] = 2;
    __syncthreads();
    a[at--] += 3;
    __syncthreads();
    unsigned sum = at;
    for (int i = 0; i < 8; ++i) sum = sum * 4 + a[i];
    out[threadIdx.x] = sum;
}
// case step_in_condition
__global__ void step_in_condition(unsigned *out, const unsigned *in, int n) {
    unsigned k = n, sum = 0;
    while (k--) {
        sum += k * threadIdx.x;
        __syncthreads();
    }
    out[threadIdx.x] = sum + k;
}
// case assigned_in_argument
__device__ unsigned assigned_in_argument_of(unsigned a, unsigned b) { return a * 10 + b; }
__global__ void assigned_in_argument(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, b;
    const unsigned c = assigned_in_argument_of(b = a + 1, 4);
    __syncthreads();
    out[threadIdx.x] = assigned_in_argument_of(a -= 1, b) + c;
    __syncthreads();
    out[threadIdx.x + 64] = a;
}
// case assigned_after_and
__global__ void assigned_after_and(unsigned *out, const unsigned *in, int n) {
    unsigned a = in[threadIdx.x], b = 0;
    a > 1000 && (b = a);
    __syncthreads();
    b || (b = 1u);
    __syncthreads();
    out[threadIdx.x] = b;
}
// case swapped_by_xor
__global__ void swapped_by_xor(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, b = n;
    a ^= b;
    __syncthreads();
    b ^= a;
    __syncthreads();
    a ^= b;
    out[threadIdx.x] = a * 100 + b;
}
// case through_this
struct Tally {
    unsigned v;
    __device__ Tally &add(unsigned by) { v += by; return *this; }
    __device__ Tally *self() { return this; }
};
__global__ void through_this(unsigned *out, const unsigned *in, int n) {
    Tally t = {threadIdx.x};
    __syncthreads();
    t.add(1).add(n).self()->v *= 2;
    __syncthreads();
    out[threadIdx.x] = t.v;
}
// case arrow_on_address
__global__ void arrow_on_address(unsigned *out, const unsigned *in, int n) {
    Point p = {1, 2};
    (&p)->x = threadIdx.x;
    __syncthreads();
    (*&p).y += p.x;
    __syncthreads();
    out[threadIdx.x] = p.x + p.y * 3;
}
// case pointer_to_member
__global__ void pointer_to_member(unsigned *out, const unsigned *in, int n) {
    Point p = {1, 2};
    unsigned Point::*m = threadIdx.x & 1 ? &Point::x : &Point::y;
    __syncthreads();
    p.*m += in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = p.x + p.y * 3;
}
// case bytes_of_a_word
__global__ void bytes_of_a_word(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    __syncthreads();
    reinterpret_cast<unsigned char *>(&v)[2] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case copied_by_memcpy
__global__ void copied_by_memcpy(unsigned *out, const unsigned *in, int n) {
    unsigned a[2] = {1, 2}, b[2] = {threadIdx.x, 7};
    __syncthreads();
    memcpy(a, b, sizeof a);
    __syncthreads();
    out[threadIdx.x] = a[0] * 10 + a[1];
}
// case vector_member
__global__ void vector_member(unsigned *out, const unsigned *in, int n) {
    uint4 v = make_uint4(1, 2, 3, threadIdx.x);
    (&v.x)[threadIdx.x & 3] += 50;
    __syncthreads();
    v.w <<= 1;
    __syncthreads();
    out[threadIdx.x] = v.x + v.y * 3 + v.z * 5 + v.w * 7;
}
// case range_for
__global__ void range_for(unsigned *out, const unsigned *in, int n) {
    unsigned a[3] = {1, 2, threadIdx.x};
    for (unsigned &v : a) v += n;
    __syncthreads();
    unsigned sum = 0;
    for (auto v : a) sum = sum * 5 + v;
    out[threadIdx.x] = sum;
}
// case alternative_tokens
__global__ void alternative_tokens(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    v xor_eq threadIdx.x;
    __syncthreads();
    v or_eq 64;
    v and_eq compl 2u;
    __syncthreads();
    out[threadIdx.x] = v bitor (not (v bitand 1) and v > 70 ? 256u : 0u);
}
