// Structs that live across barriers: bit fields, copies, arrays, methods.

struct Point { unsigned x, y; };
struct Packed { unsigned low : 5, high : 9; int sign : 4; };

// case bit_fields
__global__ void bit_fields(unsigned *out, const unsigned *in, int n) {
    Packed p = {threadIdx.x & 31, 300, -3};
    __syncthreads();
    p.low += 9;
    p.high = p.low * 40;
    __syncthreads();
    p.sign += 2;
    out[threadIdx.x] = p.low + p.high * 100 + p.sign;
}
// case copies
__global__ void copies(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 1}, q = p;
    q.y += 5;
    __syncthreads();
    p = q;
    q = Point{9, p.x};
    __syncthreads();
    out[threadIdx.x] = p.x + p.y * 3 + q.x * 5 + q.y * 7;
}
// case array_of_structs
__global__ void array_of_structs(unsigned *out, const unsigned *in, int n) {
    Point p[3] = {{1, 2}, {3, threadIdx.x}};
    __syncthreads();
    p[n % 3].y += 4;
    p[2] = p[1];
    __syncthreads();
    p[threadIdx.x % 3].x = 11;
    out[threadIdx.x] = p[0].x + p[0].y * 3 + p[1].x * 5 + p[1].y * 7 + p[2].x * 11 + p[2].y * 13;
}
// case local_struct_with_methods
__global__ void local_struct_with_methods(unsigned *out, const unsigned *in, int n) {
    struct Mixer {
        unsigned state;
        __device__ unsigned next() { state = state * 1664525u + 1013904223u; return state >> 16; }
    };
    Mixer m = {threadIdx.x};
    unsigned v = m.next();
    __syncthreads();
    v += m.next() * 3;
    __syncthreads();
    out[threadIdx.x] = v ^ m.state;
}
// case shared_structs
__global__ void shared_structs(unsigned *out, const unsigned *in, int n) {
    __shared__ Point points[64];
    points[threadIdx.x] = {in[threadIdx.x], threadIdx.x};
    __syncthreads();
    const Point next = points[(threadIdx.x + 1) % 64];
    __syncthreads();
    points[threadIdx.x].y = next.x;
    __syncthreads();
    out[threadIdx.x] = points[63 - threadIdx.x].y + next.y;
}
// case shared_struct_of_arrays
struct Tile { unsigned cells[64]; unsigned count; };
__global__ void shared_struct_of_arrays(unsigned *out, const unsigned *in, int n) {
    __shared__ Tile tile;
    tile.cells[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x == 9) tile.count = n;
    __syncthreads();
    const unsigned count = tile.count;
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += tile.cells[(threadIdx.x + i) % 64];
    __syncthreads();
    tile.cells[threadIdx.x] = sum;
    if (threadIdx.x == 3) ++tile.count;
    __syncthreads();
    out[threadIdx.x] = tile.cells[threadIdx.x ^ 1] * count + tile.count;
}
// case nested_structs
struct Line { Point from, to; unsigned marks[2]; };
__global__ void nested_structs(unsigned *out, const unsigned *in, int n) {
    Line line = {{1, 2}, {threadIdx.x, 4}, {5, 6}};
    __syncthreads();
    line.to.x += line.from.y;
    line.marks[1] = line.to.x;
    Point &p = line.from;
    __syncthreads();
    p.y += line.marks[threadIdx.x & 1];
    __syncthreads();
    out[threadIdx.x] = line.from.x + line.from.y * 3 + line.to.x * 5 + line.marks[1] * 7;
}
// case derived
struct Base { unsigned v; __device__ void step() { v += 3; } };
struct Derived : Base { unsigned w; __device__ void both() { step(); w += v; } };
__global__ void derived(unsigned *out, const unsigned *in, int n) {
    Derived d;
    d.v = threadIdx.x;
    d.w = 1;
    d.both();
    __syncthreads();
    static_cast<Base &>(d).step();
    d.both();
    __syncthreads();
    out[threadIdx.x] = d.v + d.w * 100;
}
// case constructors
struct Range {
    unsigned from, to;
    __device__ Range(unsigned to) : from(0), to(to) {}
    __device__ Range(unsigned from, unsigned to) : from(from), to(to) {}
    __device__ unsigned size() const { return to - from; }
};
__global__ void constructors(unsigned *out, const unsigned *in, int n) {
    Range a = threadIdx.x + 5, b(n, 40);
    __syncthreads();
    a.from += 2;
    b = Range(b.size());
    __syncthreads();
    out[threadIdx.x] = a.size() * 100 + b.size();
}
// case destructor
struct Guard {
    unsigned &v;
    __device__ ~Guard() { v += 100; }
};
__global__ void destructor(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    {
        Guard guard{v};
        v *= 2;
        __syncthreads();
        out[threadIdx.x] = v;
        __syncthreads();
    }
    out[threadIdx.x] += v * 1000;
}
// case default_member_values
struct Defaults { unsigned a = 4, b = a * 2; };
__global__ void default_member_values(unsigned *out, const unsigned *in, int n) {
    Defaults d;
    d.a += threadIdx.x;
    __syncthreads();
    d.b += d.a;
    __syncthreads();
    out[threadIdx.x] = d.a * 100 + d.b;
}
// case union_of_struct
union Both { Point p; unsigned long long whole; };
__global__ void union_of_struct(unsigned *out, const unsigned *in, int n) {
    Both b;
    b.p = {in[threadIdx.x], threadIdx.x};
    __syncthreads();
    b.whole += 0x100000002ull;
    __syncthreads();
    out[threadIdx.x] = b.p.x * 3 + b.p.y;
}
// case vectors
__global__ void vectors(unsigned *out, const unsigned *in, int n) {
    float4 v = make_float4(in[threadIdx.x], 1, 2, 3);
    int2 w = {static_cast<int>(threadIdx.x), -4};
    __syncthreads();
    v.y += v.x * 0.5f;
    w.y *= w.x;
    __syncthreads();
    v = make_float4(v.w, v.z, v.y, v.x);
    out[threadIdx.x] = __float_as_uint(v.z) ^ __float_as_uint(v.w) ^ w.y;
}
// case vectors_from_memory
__global__ void vectors_from_memory(unsigned *out, const unsigned *in, int n) {
    __shared__ uint4 s[64];
    s[threadIdx.x] = reinterpret_cast<const uint4 *>(in)[threadIdx.x];
    __syncthreads();
    uint4 v = s[63 - threadIdx.x];
    v.x += v.y;
    __syncthreads();
    reinterpret_cast<uint4 *>(out)[threadIdx.x] = v;
}
// case swapped_structs
__device__ void swapped_structs_of(Point &a, Point &b) { Point c = a; a = b; b = c; }
__global__ void swapped_structs(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 1}, q = {2, 3};
    swapped_structs_of(p, q);
    __syncthreads();
    q.y += p.x;
    swapped_structs_of(p, q);
    __syncthreads();
    out[threadIdx.x] = p.x * 1000 + p.y * 100 + q.x * 10 + q.y;
}
// case struct_by_value
__device__ unsigned struct_by_value_of(Point p) { p.x += 100; return p.x + p.y; }
__global__ void struct_by_value(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 1};
    const unsigned a = struct_by_value_of(p);
    __syncthreads();
    out[threadIdx.x] = a * 10 + p.x;
}
// case static_members
struct Config {
    static constexpr unsigned ROUNDS = 3;
    enum { STEP = 2 };
    using Word = unsigned;
};
__global__ void static_members(unsigned *out, const unsigned *in, int n) {
    Config::Word v = threadIdx.x;
    for (unsigned i = 0; i < Config::ROUNDS; i += 1) {
        v += Config::STEP;
        __syncthreads();
    }
    out[threadIdx.x] = v;
}
// case pointer_to_struct
__global__ void pointer_to_struct(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 5}, *q = &p;
    q->y += q->x;
    __syncthreads();
    p.x = 2;
    __syncthreads();
    out[threadIdx.x] = q->x * 1000 + q->y;
}
// case class_without_its_name
struct Tally { unsigned sum; __device__ void add(unsigned &v) { sum += v; v = 1; } };
struct Owner { Tally *tally; };
__device__ Tally class_without_its_name_tally;
__device__ Tally *class_without_its_name_of(int n) { return n ? &class_without_its_name_tally : nullptr; }
__global__ void class_without_its_name(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    if (threadIdx.x == 0) class_without_its_name_tally.sum = 0;
    __syncthreads();
    if (threadIdx.x == 5) class_without_its_name_tally.add(v);
    __syncthreads();
    if (threadIdx.x == 6) class_without_its_name_of(n)->add(v);
    __syncthreads();
    out[threadIdx.x] = v + class_without_its_name_tally.sum;
}
// case made_by_an_assignment
struct Taken { unsigned v; __device__ Taken(unsigned &from) : v(from++) {} Taken() = default; };
__device__ Taken made_by_an_assignment_all[64];
__global__ void made_by_an_assignment(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    __syncthreads();
    made_by_an_assignment_all[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] = v + made_by_an_assignment_all[threadIdx.x].v * 3;
}
// case reference_in_plain_data
using InPlainData = unsigned &;
struct WithReference { InPlainData r; };
__device__ unsigned reference_in_plain_data_step(WithReference w) { return w.r += 3; }
__global__ void reference_in_plain_data(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], u = n;
    for (int i = 0; i < 3; ++i) {
        WithReference w = {v};
        w.r += i;
        u += reference_in_plain_data_step(WithReference{v});
        if (i > 1) { WithReference x{u}; x.r ^= 5; }
    }
    __syncthreads();
    out[threadIdx.x] = v + u * 3;
}
// case function_in_plain_data
typedef void (*OfPlainData)(unsigned &);
struct WithFunction { OfPlainData f; };
__device__ void function_in_plain_data_step(unsigned &v) { v += 7; }
__global__ void function_in_plain_data(unsigned *out, const unsigned *in, int n) {
    __shared__ WithFunction all[64];
    unsigned v = in[threadIdx.x], u = n;
    all[threadIdx.x].f = function_in_plain_data_step;
    __syncthreads();
    all[63 - threadIdx.x].f(v);
    all[threadIdx.x].f(u);
    __syncthreads();
    out[threadIdx.x] = v + u * 3;
}
