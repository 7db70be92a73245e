// nvcuda::wmma: a warp's matrix multiply-accumulate on tensor cores (mma.h).
//
// A fragment has 1/32 of a matrix tile in each lane. CUDA does not specify which; here lane l has the l-th piece of the tile
// in storage order (row by row, or column by column for col_major operands), so that a piece is contiguous in memory. Loads,
// stores and products are collective operations of the warp (sync.h): the last lane to arrive does the work of all 32, as
// "sync" allows, so that the product is one vectorized loop.
//
// Check mode counts the accesses that nvcc's code makes on the hardware for the same tile, not those of this layout.
//
// Rounding is as on the hardware: products of 16-bit inputs are exact, sums are float, and a half accumulator is rounded
// once, at the end. (Tensor cores add in another order and truncate some intermediate sums, so the last bits differ.)
#pragma once
#include <limits.h>
#include <string.h>
#include <type_traits>
#include "bfloat16.h"
#include "half.h"
#include "sync.h"

#ifdef HOSTCUDA_CHECK
extern "C" HOSTCUDA_API void hostcuda_reads(const void *from, size_t bytes);
extern "C" HOSTCUDA_API void hostcuda_writes(void *to, size_t bytes);
extern "C" HOSTCUDA_API bool hostcuda_in_shared(const void *memory);
#endif

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }

// T: __half, __nv_bfloat16, precision::tf32 (stored as float), signed or unsigned char, double.
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
    static constexpr bool is_a = std::is_same_v<Use, matrix_a>, is_b = std::is_same_v<Use, matrix_b>;
    static constexpr bool is_accumulator = std::is_same_v<Use, accumulator>;
    static constexpr bool by_column = std::is_same_v<Layout, col_major>;
    static_assert(is_a || is_b || is_accumulator, "a fragment is a matrix_a, a matrix_b or an accumulator");
    static_assert(is_accumulator == std::is_same_v<Layout, void>,
                  "matrix_a and matrix_b have a layout, row_major or col_major; accumulators have none");
    static_assert((m == 16 && n == 16 && (k == 16 || k == 8)) || (m == 32 && n == 8 && k == 16)
                  || (m == 8 && n == 32 && k == 16) || (m == 8 && n == 8 && k == 4),
                  "wmma shapes: 16x16x16, 32x8x16, 8x32x16 (16x16x8 for tf32, 8x8x4 for double)");

    typedef T element_type;
    typedef std::conditional_t<std::is_same_v<T, precision::tf32>, float, T> storage_element_type;

    static constexpr int rows = is_b ? k : m, columns = is_a ? k : n;
    static constexpr int num_elements = rows * columns / 32;
    static constexpr int num_storage_elements = num_elements;
    storage_element_type x[num_elements];

    // Where a lane's piece starts in the tile.
    static constexpr int first_row(int lane) {
        return by_column ? lane * num_elements % rows : lane * num_elements / columns;
    }
    static constexpr int first_column(int lane) {
        return by_column ? lane * num_elements / rows : lane * num_elements % columns;
    }
};

}  // namespace wmma
}  // namespace nvcuda

namespace hostcuda {

// The place of a collective operation.
struct call_site {
    const char *what, *file;
    int line;
};

inline void require_whole_warp(unsigned arrived, const call_site &site) {
    if (arrived == 0xffffffffu) return;
    fail("%s at %s:%d needs the 32 threads of a warp, but %d take part: "
         "use blocks of a multiple of 32 threads, and do not let threads return or diverge before it",
         site.what, site.file, site.line, __popc(arrived));
}

#ifdef HOSTCUDA_CHECK
HOSTCUDA_API void check_sums(const void *sums, size_t bytes, int lane, const char *what, const char *file, int line);
// Are the sums of each lane set to which a product adds? Asked of the warp at once: a call for each thread would keep
// the kernel's own functions from being inlined, and what they take by reference in memory.
template <class Sums> inline void check_sums(Sums sums, const call_site &site) {
    for (int lane = 0; lane < 32; lane++) check_sums(sums(lane), sizeof sums(lane), lane, site.what, site.file, site.line);
}
#else
template <class Sums> inline void check_sums(Sums, const call_site &) {}
#endif

// CUDA specifies a stride of a multiple of 16 bytes, for tiles of half and of float.
template <class Element> inline void require_stride(unsigned stride, const call_site &site) {
    constexpr bool half = std::is_same_v<Element, __half>;
    constexpr unsigned multiple = half ? 8 : std::is_same_v<Element, float> ? 4 : 1;
    if (stride % multiple == 0) return;
    fail("%s at %s:%d: the stride is %u elements, but WMMA needs a multiple of %u for %s, which is 16 bytes",
         site.what, site.file, site.line, stride, multiple, half ? "half" : "float");
}

// A lane's slot for a load or a store.
template <class Fragment, class Pointer> struct tile_slot {
    call_site site;
    Fragment *fragment;
    Pointer memory;
    unsigned stride;
    bool by_column;           // the layout of the tile in memory
};

// Calls visit(x, memory, step) for each lane's piece, whose element i is memory[i * step].
template <class Slot, class Visit>
HOSTCUDA_UNSEEN inline void visit_pieces(void *const *lanes, Visit visit) {
    for (int lane = 0; lane < 32; lane++) {
        auto *slot = (Slot *)lanes[lane];
        typedef std::remove_const_t<std::remove_pointer_t<decltype(slot->fragment)>> Fragment;
        size_t row = Fragment::first_row(lane), column = Fragment::first_column(lane), stride = slot->stride;
        auto *first = slot->memory + (slot->by_column ? column * stride + row : row * stride + column);
        visit(slot->fragment->x, first, slot->by_column == Fragment::by_column ? 1 : stride);
    }
}

#ifdef HOSTCUDA_CHECK
// Calls visit(memory, bytes) for the accesses of each lane on the hardware, lane by lane, one call per instruction, as
// nvcc 13 compiles them for sm_90.
//
// A tile consists of parts of 8 lines. Lane l has `run` elements of line l / 4, starting with element l % 4 * run. A line
// is across an operand's depth, or a row of the sums (a column for 8x32x16). A run that is contiguous in memory is one
// access, otherwise there is one per element; but 16-bit parts are transposed during the load (MOVM, LDSM.T), so that they
// are always read contiguously. From shared memory LDSM reads the parts of an operand, up to four at a time, 16 bytes of a
// line for each of 8 lanes; here the same bytes are divided among all lanes.
template <class Slot, class Visit> inline void visit_accesses(void *const *lanes, Visit visit) {
    typedef decltype(((Slot *)nullptr)->fragment) Pointer;
    typedef std::remove_const_t<std::remove_pointer_t<Pointer>> Fragment;
    typedef typename Fragment::storage_element_type Element;
    typedef typename Fragment::element_type T;
    constexpr int size = sizeof(Element), run = Fragment::is_accumulator ? 2 : size < 4 ? 4 / size : 1;
    constexpr bool turned = Fragment::is_b || (Fragment::is_accumulator && Fragment::columns == 32);
    constexpr bool matrix_loads = !Fragment::is_accumulator && (std::is_same_v<T, __half> || size == 1);
    for (int lane = 0; lane < 32; lane++) {
        auto *slot = (Slot *)lanes[lane];
        const bool together = size == 2 || slot->by_column == turned;     // whether a run is contiguous in memory
        const bool by_column = size == 2 ? slot->by_column : turned;      // whether the lines are columns
        const int lines = by_column ? Fragment::columns : Fragment::rows;
        const int across = (by_column ? Fragment::rows : Fragment::columns) / (4 * run), parts = lines / 8 * across;
        auto at = [&](int part, int line, int element) {
            size_t i = part / across * 8 + line, j = part % across * (4 * run) + element;
            return slot->memory + (by_column == slot->by_column ? i * slot->stride + j : j * slot->stride + i);
        };
        if (matrix_loads && together && hostcuda_in_shared(slot->memory)) {
            const int most = size == 1 ? 2 : 4, each = parts < most ? parts : most, bytes = 4 * each;
            for (int part = 0; part < parts; part += each) {
                const int mine = lane % (32 / each) * bytes;              // of the 128 bytes of a part
                visit(at(part + lane / (32 / each), mine / 16, mine % 16 / size), bytes);
            }
            continue;
        }
        for (int part = 0; part < parts; part++)
            for (int i = 0; i < (together ? 1 : run); i++)
                visit(at(part, lane / 4, lane % 4 * run + i), together ? run * size : size);
    }
}
#endif

template <class Fragment, class T>
inline void load_tile(Fragment &fragment, const T *memory, unsigned stride, bool by_column, const char *file,
                      int line) {
    typedef tile_slot<Fragment, const T *> Slot;
    Slot slot{{"load_matrix_sync", file, line}, &fragment, memory, stride, by_column};
    auto combine = [](void *const *lanes, unsigned arrived) {
        require_whole_warp(arrived, ((Slot *)lanes[__builtin_ctz(arrived)])->site);
        require_stride<std::remove_const_t<T>>(((Slot *)*lanes)->stride, ((Slot *)*lanes)->site);
#ifdef HOSTCUDA_CHECK
        visit_accesses<Slot>(lanes, [](const T *from, size_t bytes) { hostcuda_reads(from, bytes); });
#endif
        visit_pieces<Slot>(lanes, [](auto *x, const T *from, size_t step) HOSTCUDA_UNSEEN {
            constexpr int count = Fragment::num_elements;
            if (step == 1) memcpy((void *)x, (const void *)from, count * sizeof *x);
            else for (int i = 0; i < count; i++) x[i] = from[i * step];
        });
    };
    warp_collective(0xffffffffu, &slot, combine, slot.site.what, file, line);
}

template <class Fragment, class T>
inline void store_tile(const Fragment &fragment, T *memory, unsigned stride, bool by_column, const char *file,
                       int line) {
    typedef tile_slot<const Fragment, T *> Slot;
    Slot slot{{"store_matrix_sync", file, line}, &fragment, memory, stride, by_column};
    auto combine = [](void *const *lanes, unsigned arrived) {
        require_whole_warp(arrived, ((Slot *)lanes[__builtin_ctz(arrived)])->site);
        require_stride<std::remove_const_t<T>>(((Slot *)*lanes)->stride, ((Slot *)*lanes)->site);
#ifdef HOSTCUDA_CHECK
        visit_accesses<Slot>(lanes, [](T *to, size_t bytes) { hostcuda_writes(to, bytes); });
#endif
        visit_pieces<Slot>(lanes, [](auto *x, T *to, size_t step) HOSTCUDA_UNSEEN {
            constexpr int count = Fragment::num_elements;
            if (step == 1) memcpy((void *)to, (const void *)x, count * sizeof *x);
            else for (int i = 0; i < count; i++) to[i * step] = x[i];
        });
    };
    warp_collective(0xffffffffu, &slot, combine, slot.site.what, file, line);
}

// ---- The product ------------------------------------------------------------------------------------------

// Sums are float; double for double; for bytes, integers that wrap around.
template <class T> struct sum_type { typedef float type; };
template <> struct sum_type<double> { typedef double type; };
template <> struct sum_type<signed char> { typedef unsigned type; };
template <> struct sum_type<unsigned char> { typedef unsigned type; };

// Copies `count` elements into the type of the sums. Tensor cores use the upper 19 bits of a tf32 operand.
template <class T, class Element, class Sum>
inline void widen_piece(Sum *to, const Element *from, int count) {
    for (int i = 0; i < count; i++) {
        if constexpr (std::is_same_v<T, nvcuda::wmma::precision::tf32>)
            to[i] = __uint_as_float(__float_as_uint(from[i]) & 0xffffe000u);
        else
            to[i] = (Sum)from[i];
    }
}
#ifdef __F16C__
typedef float float_x8 __attribute__((vector_size(32)));
typedef short halves_x8 __attribute__((vector_size(16)));
template <> inline void widen_piece<__half, __half, float>(float *to, const __half *from, int count) {
    int i = 0;
    for (; i + 8 <= count; i += 8) {
        halves_x8 eight;
        memcpy((void *)&eight, (const void *)(from + i), sizeof eight);
        float_x8 wide = __builtin_ia32_vcvtph2ps256(eight);
        memcpy(to + i, &wide, sizeof wide);
    }
    for (; i < count; i++) to[i] = (float)from[i];
}
#endif

// sums += a b for tiles that are aligned for vectors. Eight rows at a time give enough independent sums to hide the latency
// of a multiply-add (16x16x16 with AVX-512: 134 ns for the whole function; 171 ns with four rows).
template <int m, int n, int k, class Sum>
inline void multiply_add(Sum (&sums)[m][n], const Sum (&a)[m][k], const Sum (&b)[k][n]) {
    typedef Sum vector __attribute__((vector_size(32)));
    constexpr int vectors = n * sizeof(Sum) / sizeof(vector);
    for (int i = 0; i < m; i += 8) {
        vector rows[8][vectors];
        memcpy((void *)rows, (const void *)sums[i], sizeof rows);
        for (int p = 0; p < k; p++) {
            const vector *across = (const vector *)b[p];
            for (int r = 0; r < 8; r++)
                for (int v = 0; v < vectors; v++) rows[r][v] += a[i + r][p] * across[v];
        }
        memcpy((void *)sums[i], (const void *)rows, sizeof rows);
    }
}

// The whole tile, row by row, assembled from the lanes' fragments.
template <class Fragment, class Sum, class Piece>
inline void gather_tile(Sum (&tile)[Fragment::rows][Fragment::columns], Piece piece) {
    constexpr int count = Fragment::num_elements;
    Sum flat[32 * count];
    for (int lane = 0; lane < 32; lane++)
        widen_piece<typename Fragment::element_type>(flat + lane * count, piece(lane), count);
    for (int i = 0; i < Fragment::rows; i++)
        for (int j = 0; j < Fragment::columns; j++)
            tile[i][j] = flat[Fragment::by_column ? j * Fragment::rows + i : i * Fragment::columns + j];
}

// c + product, clamped, from the wrapped sum: the product alone fits an int.
inline int saturated_sum(unsigned wrapped, int c) {
    long long sum = (long long)c + (int)(wrapped - (unsigned)c);
    return (int)(sum < INT_MIN ? INT_MIN : sum > INT_MAX ? INT_MAX : sum);
}

template <class A, class B, class C, class D> struct product_slot {
    call_site site;
    const A *a;
    const B *b;
    const C *c;
    D *d;
    bool saturate;
};

template <class A, class B, class C, class D>
inline void product_combine(void *const *lanes, unsigned arrived) {
    typedef product_slot<A, B, C, D> Slot;
    typedef typename sum_type<typename A::element_type>::type Sum;
    constexpr int m = A::rows, n = B::columns, k = A::columns, count = D::num_elements;
    auto slot = [&](int lane) { return (const Slot *)lanes[lane]; };
    require_whole_warp(arrived, slot(__builtin_ctz(arrived))->site);
    check_sums([&](int lane) -> auto & { return slot(lane)->c->x; }, slot(0)->site);

    alignas(64) Sum a[m][k], b[k][n], sums[m][n];
    gather_tile<A>(a, [&](int lane) { return slot(lane)->a->x; });
    gather_tile<B>(b, [&](int lane) { return slot(lane)->b->x; });
    gather_tile<C>(sums, [&](int lane) { return slot(lane)->c->x; });

    multiply_add(sums, a, b);

    const Sum *flat = &sums[0][0];
    for (int lane = 0; lane < 32; lane++) {
        auto *x = slot(lane)->d->x;
        for (int i = 0; i < count; i++) {
            auto sum = flat[lane * count + i];
            if constexpr (std::is_same_v<Sum, unsigned>)
                x[i] = slot(lane)->saturate ? saturated_sum(sum, slot(lane)->c->x[i]) : (int)sum;
            else
                x[i] = (typename D::element_type)sum;
        }
    }
}

template <class A, class B, class C, class D>
inline void product(D &d, const A &a, const B &b, const C &c, bool saturate, const char *file, int line) {
    product_slot<A, B, C, D> slot{{"mma_sync", file, line}, &a, &b, &c, &d, saturate};
    warp_collective(0xffffffffu, &slot, product_combine<A, B, C, D>, slot.site.what, file, line);
}

}  // namespace hostcuda

namespace nvcuda {
namespace wmma {

template <class Use, int m, int n, int k, class T, class Layout>
inline void fill_fragment(fragment<Use, m, n, k, T, Layout> &f,
                          const typename fragment<Use, m, n, k, T, Layout>::storage_element_type &value) {
    for (int i = 0; i < f.num_elements; i++) f.x[i] = value;
}

// ldm: the distance between two rows (columns, in column order), in elements.
template <class Use, int m, int n, int k, class T, class Layout>
inline void load_matrix_sync(fragment<Use, m, n, k, T, Layout> &f,
                             const typename fragment<Use, m, n, k, T, Layout>::storage_element_type *p,
                             unsigned ldm, HOSTCUDA_HERE) {
    static_assert(!std::is_same_v<Use, accumulator>, "load an accumulator with its layout as 4th argument");
    hostcuda::load_tile(f, p, ldm, f.by_column, file, line);
}
template <int m, int n, int k, class T>
inline void load_matrix_sync(fragment<accumulator, m, n, k, T> &f,
                             const typename fragment<accumulator, m, n, k, T>::storage_element_type *p,
                             unsigned ldm, layout_t layout, HOSTCUDA_HERE) {
    hostcuda::load_tile(f, p, ldm, layout == mem_col_major, file, line);
}
template <int m, int n, int k, class T>
inline void store_matrix_sync(typename fragment<accumulator, m, n, k, T>::storage_element_type *p,
                              const fragment<accumulator, m, n, k, T> &f, unsigned ldm, layout_t layout,
                              HOSTCUDA_HERE) {
    hostcuda::store_tile(f, p, ldm, layout == mem_col_major, file, line);
}

// d = a b + c.
template <int m, int n, int k, class T, class LayoutA, class LayoutB, class C, class D>
inline void mma_sync(fragment<accumulator, m, n, k, D> &d, const fragment<matrix_a, m, n, k, T, LayoutA> &a,
                     const fragment<matrix_b, m, n, k, T, LayoutB> &b,
                     const fragment<accumulator, m, n, k, C> &c, HOSTCUDA_HERE) {
    hostcuda::product(d, a, b, c, false, file, line);
}
// The same for bytes; with satf, sums beyond the range of int are clamped.
template <int m, int n, int k, class T, class LayoutA, class LayoutB>
inline void mma_sync(fragment<accumulator, m, n, k, int> &d, const fragment<matrix_a, m, n, k, T, LayoutA> &a,
                     const fragment<matrix_b, m, n, k, T, LayoutB> &b,
                     const fragment<accumulator, m, n, k, int> &c, bool satf, HOSTCUDA_HERE) {
    hostcuda::product(d, a, b, c, satf, file, line);
}

// The nearest tf32 value: 10 bits after the point, ties away from zero.
inline float __float_to_tf32(float x) {
    unsigned int bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? x : __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

}  // namespace wmma
}  // namespace nvcuda
