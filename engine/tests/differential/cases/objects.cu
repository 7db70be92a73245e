// Objects of classes that live across barriers.

// case class_array
struct Acc { unsigned v; __device__ Acc(unsigned x = 1) : v(x) {} __device__ void add(unsigned by) { v += by; } };
__global__ void class_array(unsigned *out, const unsigned *in, int n) {
    Acc accs[3];
    accs[1].add(in[threadIdx.x]);
    __syncthreads();
    accs[2].add(accs[1].v);
    Acc other = accs[2];
    __syncthreads();
    other.add(1);
    out[threadIdx.x] = accs[0].v + accs[1].v * 3 + accs[2].v * 5 + other.v;
}
// case class_in_branches
__global__ void class_in_branches(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0; i < 3; ++i) {
        Acc acc(i + threadIdx.x);
        if (i == 1) { acc.add(5); __syncthreads(); acc.add(in[threadIdx.x]); }
        else acc = Acc(7);
        __syncthreads();
        sum = sum * 3 + acc.v;
    }
    out[threadIdx.x] = sum;
}
// case class_by_brackets
__global__ void class_by_brackets(unsigned *out, const unsigned *in, int n) {
    Acc a{in[threadIdx.x]}, b = 5, c = Acc{6}, d(a);
    Acc *p = &a;
    __syncthreads();
    p->add(3);
    b.add(d.v);
    __syncthreads();
    out[threadIdx.x] = a.v + b.v * 3 + c.v * 5;
}
// case explicit_only
struct Only { unsigned v; __device__ explicit Only(unsigned x) : v(x) {} Only(const Only &) = default; Only &operator=(const Only &) = delete; };
__global__ void explicit_only(unsigned *out, const unsigned *in, int n) {
    Only o(in[threadIdx.x]);
    __syncthreads();
    o.v += 3;
    __syncthreads();
    out[threadIdx.x] = o.v;
}
// case class_in_class
struct Inner { unsigned v[2], *p; __device__ Inner() : p(v) { v[0] = 3, v[1] = 4; } };
struct Outer { Inner inner; unsigned w; __device__ Outer(unsigned x) : w(x) { *inner.p++ += x; } };
__global__ void class_in_class(unsigned *out, const unsigned *in, int n) {
    Outer o(in[threadIdx.x]);
    __syncthreads();
    *o.inner.p += 5;
    __syncthreads();
    out[threadIdx.x] = o.inner.v[0] + o.inner.v[1] * 3 + o.w;
}
// case class_returned
struct Self { unsigned v; Self *me; __device__ Self(unsigned x) : v(x), me(this) {} };
__device__ Self self_of(unsigned x) { return Self(x + 1); }
__global__ void class_returned(unsigned *out, const unsigned *in, int n) {
    Self s = self_of(in[threadIdx.x]);
    __syncthreads();
    s.me->v += 5;
    __syncthreads();
    out[threadIdx.x] = s.v;
}
// case class_in_a_section: block 96
struct Held { unsigned v; const unsigned *p; __device__ Held(const unsigned *q) : v(1), p(q) {} __device__ unsigned get() const { return *p + v; } };
__global__ void class_in_a_section(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x];
    Held h(&x);
    x += __shfl_xor_sync(0xffffffff, x, 1);
    __syncthreads();
    out[threadIdx.x] = h.get();
}
// case classes_that_point_at_each_other
struct Other;
struct One { Other *other; unsigned v; __device__ One(unsigned x) : other(nullptr), v(x) {} };
struct Other { One *one; unsigned v; __device__ Other(One *o) : one(o), v(2) {} };
__global__ void classes_that_point_at_each_other(unsigned *out, const unsigned *in, int n) {
    One a(in[threadIdx.x]);
    Other b(&a);
    a.other = &b;
    __syncthreads();
    b.one->v += 3;
    a.other->v += n;
    __syncthreads();
    out[threadIdx.x] = a.v * 8 + b.v;
}
