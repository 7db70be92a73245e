// Operators that keep, count or look at what they are given.

// case expression_keeps
struct V1 { unsigned x, y; };
struct Sum1 { const V1 *a, *b; };
__device__ Sum1 sum1_of(const V1 &a, const V1 &b) { return {&a, &b}; }
__device__ Sum1 operator+(const V1 &a, const V1 &b) { return sum1_of(a, b); }
__global__ void expression_keeps(unsigned *out, const unsigned *in, int n) {
    V1 a = {threadIdx.x, 1}, b = {2, in[threadIdx.x]};
    Sum1 e = a + b;
    a.x += 1;
    __syncthreads();
    a.x += 4, b.y += 9;
    __syncthreads();
    out[threadIdx.x] = e.a->x * 3 + e.b->y;
}
// case returns_address
struct V2 { unsigned x; };
__device__ const V2 *operator~(const V2 &a) { return &a; }
__global__ void returns_address(unsigned *out, const unsigned *in, int n) {
    V2 a = {in[threadIdx.x]};
    const V2 *p = ~a;
    a.x += 1;
    __syncthreads();
    a.x += 4;
    __syncthreads();
    out[threadIdx.x] = p->x;
}
// case unary_star
struct V4 { unsigned x; };
__device__ unsigned &operator*(V4 &a) { return a.x; }
__global__ void unary_star(unsigned *out, const unsigned *in, int n) {
    V4 a = {in[threadIdx.x]};
    unsigned *p = &*a;
    a.x += 1;
    __syncthreads();
    *p += 4;
    __syncthreads();
    out[threadIdx.x] = a.x;
}
// case owner
struct List5 { unsigned count; };
struct Node5 { unsigned v; List5 *owner; };
__device__ void operator+=(List5 &list, Node5 &node) { node.owner = &list; ++list.count; }
__global__ void owner(unsigned *out, const unsigned *in, int n) {
    List5 list = {threadIdx.x};
    Node5 node = {in[threadIdx.x], nullptr};
    list += node;
    __syncthreads();
    list.count += 3;
    node.owner->count += 10;
    __syncthreads();
    out[threadIdx.x] = list.count + node.owner->count * 1000;
}
// case comma_operator
struct Seen6 { const unsigned *p[2]; unsigned count; };
__device__ Seen6 &operator,(Seen6 &s, const unsigned &v) { s.p[s.count++ & 1] = &v; return s; }
__global__ void comma_operator(unsigned *out, const unsigned *in, int n) {
    unsigned a = in[threadIdx.x], b = threadIdx.x;
    Seen6 s = {};
    s, a, b;
    a += 1, b += 1;
    __syncthreads();
    a += 5, b += 7;
    __syncthreads();
    out[threadIdx.x] = *s.p[0] * 3 + *s.p[1];
}
// case enum_steps
enum Level8 : unsigned { low8, mid8, high8, top8 };
__device__ unsigned calls8;
__device__ Level8 &operator++(Level8 &a) { atomicAdd(&calls8, 1); return a = Level8((a + 1u) % 4); }
__global__ void enum_steps(unsigned *out, const unsigned *in, int n) {
    const unsigned before = calls8;
    __syncthreads();
    Level8 a = mid8;
    ++a;
    __syncthreads();
    ++a;
    __syncthreads();
    out[threadIdx.x] = a * 1000 + calls8 - before;
}
// case own_literal
__device__ unsigned calls9;
__device__ unsigned operator""_next(unsigned long long v) { return atomicAdd(&calls9, v) * 0 + v; }
__global__ void own_literal(unsigned *out, const unsigned *in, int n) {
    const unsigned before = calls9;
    __syncthreads();
    unsigned a = 1_next;
    __syncthreads();
    out[threadIdx.x] = a * 1000 + calls9 - before;
}
// case vector_operator
__device__ unsigned scale10 = 2;
__device__ uint2 operator*(uint2 a, uint2 b) { return make_uint2(a.x * b.x + scale10, a.y * b.y); }
__global__ void vector_operator(unsigned *out, const unsigned *in, int n) {
    __syncthreads();
    uint2 a = make_uint2(n, 3);
    if (threadIdx.x == 0) scale10 = n + 1;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
    uint2 b = a * a;
    __syncthreads();
    if (threadIdx.x == 0) scale10 = n + 2;
    __syncthreads();
    out[threadIdx.x] += b.x * 100 + b.y;
}
// case stored_self
struct Queue12 {
    unsigned items[4], *top;
    __device__ Queue12(unsigned x = 0) : top(items) { *top++ = x; }
};
__global__ void stored_self(unsigned *out, const unsigned *in, int n) {
    Queue12 q(in[threadIdx.x]);
    __syncthreads();
    *q.top++ = 5;
    __syncthreads();
    out[threadIdx.x] = q.items[0] * 10 + q.items[1] + (q.top - q.items);
}
// case constructed_by_alias
template <class T> using RefTo13 = T &;
struct View13 {
    const unsigned *p;
    __device__ View13() : p(nullptr) {}
    __device__ View13(RefTo13<const unsigned> v) : p(&v) {}
};
__global__ void constructed_by_alias(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    View13 s;
    s = v;
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *s.p;
}
// case constructed_by_template
template <class T> struct View14 {
    const unsigned *p;
    __device__ View14() : p(nullptr) {}
    __device__ View14(T v) : p(&v) {}
};
__global__ void constructed_by_template(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    View14<const unsigned &> s;
    s = v;
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *s.p;
}
// case made_by_the_living: n 10
struct Ticket15 { unsigned v; __device__ Ticket15(); };
__device__ unsigned made15;
__device__ Ticket15::Ticket15() : v(3) { atomicAdd(&made15, 1); }
__global__ void made_by_the_living(unsigned *out, const unsigned *in, int n) {
    const unsigned before = made15;
    __syncthreads();
    if (threadIdx.x >= n) return;
    __syncthreads();
    Ticket15 t;
    __syncthreads();
    out[threadIdx.x] = t.v * 1000 + made15 - before;
}
// case constructed_later: block 1
__device__ unsigned now16;
struct Clock16 { unsigned v; __device__ Clock16() : v(now16) {} };
__global__ void constructed_later(unsigned *out, const unsigned *in, int n) {
    now16 = in[3];
    Clock16 c;
    now16 += 3;
    __syncthreads();
    out[threadIdx.x] = c.v * 10 + now16;
}
// case archive
struct Archive17 { unsigned *p; };
__device__ void operator&(Archive17 &a, unsigned &v) { a.p = &v; }
__global__ void archive(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    Archive17 ar = {};
    v += 1;
    if (n) { ar & v; }
    __syncthreads();
    *ar.p += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case operator_of_an_alias
struct Bits20 { unsigned v; };
using Ref20 = Bits20 &;
__device__ unsigned operator+(Ref20 b, unsigned x) { b.v += 5; return b.v ^ x; }
__global__ void operator_of_an_alias(unsigned *out, const unsigned *in, int n) {
    Bits20 b = {in[threadIdx.x]};
    unsigned v = b + 3u;
    __syncthreads();
    v += b + v;
    __syncthreads();
    out[threadIdx.x] = v * 7 + b.v;
}
// case operator_of_what_has_no_name
enum { FIRST21 = 1, SECOND21 = 2 };
__device__ unsigned scale21 = 3;
__device__ unsigned operator-(decltype(FIRST21) a, unsigned b) { return scale21 * a + b; }
__global__ void operator_of_what_has_no_name(unsigned *out, const unsigned *in, int n) {
    const unsigned before = FIRST21 - 4u;
    __syncthreads();
    if (threadIdx.x == 0) scale21 = 10;
    __syncthreads();
    out[threadIdx.x] = before * 1000 + (SECOND21 - FIRST21);
    __syncthreads();
    if (threadIdx.x == 0) scale21 = 3;
}
