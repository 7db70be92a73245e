// Pointers and references to the variables of a thread that look like something else.

#include <initializer_list>
struct Link { unsigned v; Link *self; };
struct Point { unsigned x, y; };
template <int N> using Place = const unsigned *;
template <class T> struct Box { typedef T type; };
template <class T> using RefTo = T &;
struct RefHolder { const unsigned &r; };

// case section_array: block 96
__global__ void section_array(unsigned *out, const unsigned *in, int n) {
    unsigned a[3] = {in[threadIdx.x], 2, 3};
    unsigned *p = a + 1;
    a[0] += __shfl_xor_sync(0xffffffff, a[0], 1);
    a[1] += a[0];
    __syncthreads();
    *p += 3;
    __syncwarp();
    out[threadIdx.x] = p[-1] + p[0] + p[1];
}
// case section_object: block 96
struct Acc { unsigned v, *p; __device__ Acc() : v(3), p(nullptr) {} __device__ Acc *me() { return this; } };
__global__ void section_object(unsigned *out, const unsigned *in, int n) {
    Acc acc;
    Acc *p = acc.me();
    p->v += in[threadIdx.x];
    unsigned w = __shfl_xor_sync(0xffffffff, acc.v, 1);
    __syncthreads();
    p->v += w;
    out[threadIdx.x] = p->v;
}
// case shared_pointer_to_mine
__global__ void shared_pointer_to_mine(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned *mine[64];
    for (int i = 0; i < 3; ++i) {
        unsigned v = in[threadIdx.x + i];
        mine[threadIdx.x] = &v;
        v += __reduce_add_sync(0xffffffff, v);
        __syncthreads();
        *mine[threadIdx.x] += i;
        __syncthreads();
        out[threadIdx.x] += *mine[threadIdx.x];
    }
}
// case self_link
__global__ void self_link(unsigned *out, const unsigned *in, int n) {
    Link head = {threadIdx.x, &head};
    __syncthreads();
    head.v += 7;
    __syncthreads();
    out[threadIdx.x] = head.self->v + (head.self == &head ? 100 : 0);
}
// case self_link_unnamed
__global__ void self_link_unnamed(unsigned *out, const unsigned *in, int n) {
    Link head = {threadIdx.x, &head};
    Link *p = head.self;
    __syncthreads();
    p->v += 7;
    __syncthreads();
    out[threadIdx.x] = head.v;
}
// case array_cast
__global__ void array_cast(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned (*p)[1] = nullptr;
    const unsigned *q = *(unsigned (*)[1])&v;
    v += 3;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *q + (p == nullptr);
}
// case decltype_cast
__global__ void decltype_cast(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *q = (decltype(v) *)&v;
    v += 3;
    __syncthreads();
    *q += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case alias_cast
__global__ void alias_cast(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *q = (Place<3>)&v;
    v += 3;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *q;
}
// case nested_template_call
template <class T> __device__ const unsigned *nested_at(const typename T::type &v) { return &v; }
__global__ void nested_template_call(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *q = nested_at<Box<unsigned>>(v);
    v += 3;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *q;
}
// case nested_template_cast
__global__ void nested_template_cast(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *q = &static_cast<RefTo<unsigned>>(v);
    v += 3;
    __syncthreads();
    *q += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case section_pointer
__global__ void section_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *p = &v;
    v += __shfl_xor_sync(0xffffffff, v, 1);
    __syncthreads();
    *p += 3;
    out[threadIdx.x] = *p;
}
// case list_of_values
__global__ void list_of_values(unsigned *out, const unsigned *in, int n) {
    std::initializer_list<unsigned> list = {threadIdx.x, in[threadIdx.x], 3u};
    __syncthreads();
    unsigned sum = 0;
    const unsigned *p = list.begin();
    for (unsigned i = 0; i < list.size(); ++i) sum = sum * 3 + p[i];
    out[threadIdx.x] = sum;
}
// case local_struct_asks
__global__ void local_struct_asks(unsigned *out, const unsigned *in, int n) {
    struct Me { __device__ unsigned operator_() const { return threadIdx.x; } };
    unsigned v = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = v + Me().operator_();
}
// case local_struct_default
__global__ void local_struct_default(unsigned *out, const unsigned *in, int n) {
    struct Item { unsigned id = threadIdx.x, two = 2; };
    Item item;
    unsigned v = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = v + item.id * 10 + item.two;
}
// case designated_reference
__global__ void designated_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    RefHolder h = {.r = v};
    v += 3;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = h.r;
}
// case reinterpreted_vector
__global__ void reinterpreted_vector(unsigned *out, const unsigned *in, int n) {
    uint2 v = make_uint2(in[threadIdx.x], 1);
    unsigned *p = (unsigned (&)[2])v;
    __syncthreads();
    p[1] += 5;
    __syncthreads();
    out[threadIdx.x] = v.x + v.y;
}
// case compound_literal_pointer
__global__ void compound_literal_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *const *q, *p = &v;
    q = &p;
    v += 1;
    __syncthreads();
    v += 2;
    p = in;
    __syncthreads();
    out[threadIdx.x] = **q + v;
}
// case member_of_array_of_structs
struct Row { unsigned a[2]; unsigned *p; };
__global__ void member_of_array_of_structs(unsigned *out, const unsigned *in, int n) {
    Row rows[2] = {{{threadIdx.x, 1}, nullptr}, {{2, 3}, nullptr}};
    rows[0].p = rows[1].a;
    rows[1].p = &rows[0].a[1];
    __syncthreads();
    *rows[1].p += 5;
    rows[0].p[1] += in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = rows[0].a[1] * 3 + rows[1].a[1];
}
// case returned_by_comma
__global__ void returned_by_comma(unsigned *out, const unsigned *in, int n) {
    unsigned a = in[threadIdx.x], b = 2;
    unsigned *p = &(b += 1, a);
    __syncthreads();
    *p += 3;
    (n > 2 ? a : b) += 7;
    __syncthreads();
    out[threadIdx.x] = a + b * 1000;
}
// case pointer_to_parameter
__global__ void pointer_to_parameter(unsigned *out, const unsigned *in, int n) {
    int *p = &n;
    const unsigned **q = &in;
    *p += threadIdx.x;
    __syncthreads();
    *q += 1;
    __syncthreads();
    out[threadIdx.x] = in[0] + n;
}
// case by_decltype
__device__ const unsigned *by_decltype_at(long v) { return nullptr; }
__device__ decltype(auto) by_decltype_at(const unsigned &v) { return &v; }
__global__ void by_decltype(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *p = by_decltype_at(v);
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *p;
}
// case by_attribute
__device__ const unsigned *by_attribute_at(long v) { return nullptr; }
__attribute__((noinline)) __device__ const unsigned *by_attribute_at(const unsigned &v) { return &v; }
__global__ void by_attribute(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *p = by_attribute_at(v);
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *p;
}
// case by_enable_if
template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0> __device__ const T *by_enable_if_at(T v) { return nullptr; }
template <class T, std::enable_if_t<(sizeof(T) <= 4 && std::is_integral_v<T>), int> = 0> __device__ const T *by_enable_if_at(const T &v) { return &v; }
__global__ void by_enable_if(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *p = by_enable_if_at(v);
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *p;
}
