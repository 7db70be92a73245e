// Variables whose declaration does not begin with the name of a type.

struct Point { unsigned x, y; };
class Counter {
public:
    unsigned at;
    __device__ void step() { at += 2; }
};
union Word { unsigned u; float f; unsigned char bytes[4]; };
enum Level { LOW = 1, HIGH = 4 };
enum class Side : unsigned { LEFT = 2, RIGHT = 9 };

// case struct_word
__global__ void struct_word(unsigned *out, const unsigned *in, int n) {
    struct Point p = {in[threadIdx.x], 3};
    __syncthreads();
    p.x += p.y;
    __syncthreads();
    out[threadIdx.x] = p.x;
}
// case struct_assigned_later
__global__ void struct_assigned_later(unsigned *out, const unsigned *in, int n) {
    struct Point p;
    p.x = threadIdx.x;
    p.y = 4;
    __syncthreads();
    p.y *= p.x;
    __syncthreads();
    out[threadIdx.x] = p.y;
}
// case class_word
__global__ void class_word(unsigned *out, const unsigned *in, int n) {
    class Counter c = {in[threadIdx.x]};
    __syncthreads();
    c.step();
    __syncthreads();
    c.step();
    out[threadIdx.x] = c.at;
}
// case union_word
__global__ void union_word(unsigned *out, const unsigned *in, int n) {
    union Word w;
    w.u = in[threadIdx.x];
    __syncthreads();
    w.bytes[1] ^= 0x80;
    __syncthreads();
    out[threadIdx.x] = w.u;
}
// case enum_word
__global__ void enum_word(unsigned *out, const unsigned *in, int n) {
    enum Level level = threadIdx.x & 1 ? HIGH : LOW;
    __syncthreads();
    if (threadIdx.x > 9) level = HIGH;
    __syncthreads();
    out[threadIdx.x] = level;
}
// case enum_class_variable
__global__ void enum_class_variable(unsigned *out, const unsigned *in, int n) {
    Side side = Side::LEFT;
    __syncthreads();
    if (in[threadIdx.x] % 3) side = Side::RIGHT;
    __syncthreads();
    out[threadIdx.x] = static_cast<unsigned>(side);
}
// case const_after_type
__global__ void const_after_type(unsigned *out, const unsigned *in, int n) {
    unsigned const mine = in[threadIdx.x];
    int unsigned more = mine * 2;
    __syncthreads();
    more += mine;
    __syncthreads();
    out[threadIdx.x] = more;
}
// case long_words
__global__ void long_words(unsigned *out, const unsigned *in, int n) {
    long long unsigned int wide = in[threadIdx.x];
    short unsigned narrow = threadIdx.x;
    __syncthreads();
    wide = wide * 0x100000003 + narrow;
    narrow -= 5;
    __syncthreads();
    out[threadIdx.x] = wide >> 16;
    out[threadIdx.x + 64] = narrow;
}
// case several_of_one_type
__global__ void several_of_one_type(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, *p = &a, b[2] = {a, 7}, &r = b[1];
    __syncthreads();
    *p += 5;
    r += a;
    __syncthreads();
    out[threadIdx.x] = a * 1000 + b[0] * 100 + b[1];
}
// case struct_defined_here
__global__ void struct_defined_here(unsigned *out, const unsigned *in, int n) {
    struct Here { unsigned a; int b; } h = {in[threadIdx.x], -1};
    __syncthreads();
    h.b -= threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = h.a + h.b;
}
// case nameless_struct
__global__ void nameless_struct(unsigned *out, const unsigned *in, int n) {
    struct { unsigned a, b; } h = {threadIdx.x, 1};
    __syncthreads();
    h.a += h.b++;
    __syncthreads();
    out[threadIdx.x] = h.a * 10 + h.b;
}
// case shared_struct_word
__global__ void shared_struct_word(unsigned *out, const unsigned *in, int n) {
    __shared__ struct Point points[64];
    points[threadIdx.x].x = in[threadIdx.x];
    points[threadIdx.x].y = threadIdx.x;
    __syncthreads();
    struct Point *other = &points[63 - threadIdx.x];
    out[threadIdx.x] = other->x * 2 + other->y;
}
// case auto_of_struct
__global__ void auto_of_struct(unsigned *out, const unsigned *in, int n) {
    auto p = Point{threadIdx.x, 2};
    auto *q = &p;
    __syncthreads();
    q->x += n;
    __syncthreads();
    out[threadIdx.x] = p.x + q->y;
}
// case structured_binding
__global__ void structured_binding(unsigned *out, const unsigned *in, int n) {
    auto [a, b] = Point{in[threadIdx.x], threadIdx.x};
    __syncthreads();
    a += b;
    __syncthreads();
    out[threadIdx.x] = a * 2 + b;
}
// case declared_in_condition
__global__ void declared_in_condition(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    if (unsigned v = in[threadIdx.x] & 3) sum += v;
    __syncthreads();
    if (const unsigned v = threadIdx.x; v > 8) sum += v * 10;
    __syncthreads();
    out[threadIdx.x] = sum;
}
// case initialized_by_braces
__global__ void initialized_by_braces(unsigned *out, const unsigned *in, int n) {
    unsigned a{threadIdx.x}, b(a + 1), c = {b * 2};
    unsigned list[]{a, b, c};
    __syncthreads();
    list[2] += list[0]++;
    __syncthreads();
    out[threadIdx.x] = a + b * 10 + c * 100 + list[0] + list[2];
}
// case array_of_pointers
__global__ void array_of_pointers(unsigned *out, const unsigned *in, int n) {
    unsigned a = 1, b = 2;
    unsigned *which[2] = {&a, &b};
    __syncthreads();
    *which[threadIdx.x & 1] += in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = a * 3 + b;
}
// case pointer_to_array
__global__ void pointer_to_array(unsigned *out, const unsigned *in, int n) {
    unsigned a[4] = {1, 2, 3, threadIdx.x};
    unsigned(*p)[4] = &a;
    __syncthreads();
    (*p)[threadIdx.x & 3] += 10;
    __syncthreads();
    out[threadIdx.x] = a[0] + a[1] * 3 + a[2] * 5 + a[3] * 7;
}
// case function_pointer
__device__ unsigned function_pointer_add(unsigned a, unsigned b) { return a + b; }
__device__ unsigned function_pointer_mul(unsigned a, unsigned b) { return a * b; }
__global__ void function_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned (*f)(unsigned, unsigned) = threadIdx.x & 1 ? function_pointer_add : function_pointer_mul;
    __syncthreads();
    const unsigned v = f(in[threadIdx.x], 3);
    __syncthreads();
    out[threadIdx.x] = f(v, 5);
}
