// Tensor maps: copies of boxes of a tensor in global memory (PTX: cp.async.bulk.tensor; the driver's cuTensorMapEncodeTiled).
//
// A box is copied row by row, a row along the first dimension. What sticks out of the tensor becomes zero, and is not stored. A
// swizzle exchanges the pieces of 16 bytes of the box in shared memory: bits of the address from 16 on become the exclusive or
// with those from 128 on.
#pragma once
#include <stdint.h>
#include "mbarrier.h"

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32, CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64, CU_TENSOR_MAP_DATA_TYPE_INT64, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_INTERLEAVE_32B };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA };

struct alignas(64) CUtensorMap {
    char *hostcuda_base;
    uint64_t hostcuda_size[5], hostcuda_pitch[5];      // elements; bytes from one element to the next
    uint32_t hostcuda_box[5];                          // elements
    uint8_t hostcuda_step[5], hostcuda_rank, hostcuda_swizzle, hostcuda_element;   // swizzle: the bits of the address that it changes
    uint8_t hostcuda_type, hostcuda_made;              // made: a number that says that this is a map
};
static_assert(sizeof(CUtensorMap) == 128, "a tensor map has 128 bytes");

namespace hostcuda {

constexpr uint8_t tensor_map_made = 0x5a;

// Fill in a map; return what is wrong with the arguments, or null.
inline const char *encode_tensor_map(CUtensorMap *map, CUtensorMapDataType type, unsigned rank, void *base, const uint64_t *sizes, const uint64_t *pitches,
                                     const uint32_t *box, const uint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapFloatOOBfill fill) {
    constexpr uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return "the CPU engine has no interleaved layouts";
    if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) return "the CPU engine fills what is outside of the tensor with zeros only";
    if (rank < 1 || rank > 5) return "a tensor has 1 to 5 dimensions";
    if ((uintptr_t)base % 16) return "the address of the tensor is no multiple of 16 bytes";
    *map = CUtensorMap{};
    map->hostcuda_base = (char *)base;
    map->hostcuda_rank = rank;
    map->hostcuda_element = bytes[type];
    map->hostcuda_type = type;
    map->hostcuda_swizzle = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : (0x10 << swizzle) - 0x10;
    for (unsigned i = 0; i < 5; i++) {
        bool has = i < rank;
        map->hostcuda_size[i] = has ? sizes[i] : 1;
        map->hostcuda_box[i] = has ? box[i] : 1;
        map->hostcuda_step[i] = has ? steps[i] : 1;
        map->hostcuda_pitch[i] = i == 0 ? bytes[type] : has ? pitches[i - 1] : 0;
        if (has && (!sizes[i] || sizes[i] > 1ull << 32)) return "a dimension of the tensor has 1 to 2^32 elements";
        if (has && (!box[i] || box[i] > 256)) return "a dimension of the box has 1 to 256 elements";
        if (has && (!steps[i] || steps[i] > 8)) return "the step of a dimension is 1 to 8";
        if (has && i && (pitches[i - 1] % 16 || pitches[i - 1] >= 1ull << 40)) return "the pitch of a dimension is no multiple of 16 bytes";
    }
    unsigned row = box[0] * bytes[type];
    if (row % 16) return "a row of the box is no multiple of 16 bytes";
    if (map->hostcuda_swizzle && row > map->hostcuda_swizzle + 16u) return "a row of the box is longer than the swizzle, of 32, 64 or 128 bytes";
    if (map->hostcuda_step[0] != 1) return "the CPU engine knows steps of 1 along the first dimension only";
    map->hostcuda_made = tensor_map_made;
    return nullptr;
}

// Call visit(shared, global, bytes) for each run of bytes of the box at these coordinates; `global` is null outside of the tensor.
template <class Visit> HOSTCUDA_UNSEEN inline void visit_box(const CUtensorMap &map, const int (&at)[5], char *shared, Visit visit) {
    const uint32_t *box = map.hostcuda_box;
    unsigned element = map.hostcuda_element, row_bytes = box[0] * element, unit = map.hostcuda_swizzle ? 16 : row_bytes;
    long left = at[0] < 0 ? -(long)at[0] * element : 0, right = ((long)map.hostcuda_size[0] - at[0]) * element;   // bytes of a row that are inside
    for (unsigned row = 0, rows = box[1] * box[2] * box[3] * box[4]; row < rows; row++) {
        const char *global = map.hostcuda_base + (long)at[0] * element;
        bool inside = true;
        for (unsigned i = 1, rest = row; i < 5; rest /= box[i++]) {
            long place = at[i] + (long)(rest % box[i]) * map.hostcuda_step[i];
            inside &= place >= 0 && place < (long)map.hostcuda_size[i];
            global += place * (long)map.hostcuda_pitch[i];
        }
        for (unsigned from = 0; from < row_bytes; from += unit) {
            size_t address = (size_t)shared + (size_t)row * row_bytes + from;
            char *to = (char *)(address ^ (address >> 3 & map.hostcuda_swizzle));
            long begin = from, end = from + unit, first = begin < left ? left : begin, last = end < right ? end : right;
            if (!inside || first >= last) {
                visit(to, nullptr, unit);
                continue;
            }
            if (first > begin) visit(to, nullptr, first - begin);
            visit(to + (first - begin), global + first, last - first);
            if (last < end) visit(to + (last - begin), nullptr, end - last);
        }
    }
}

// The pieces of a box, in memory of malloc: to shared memory, or from there.
struct BoxPieces {
    Piece *pieces;
    unsigned count;
    size_t bytes;
    bool is_inside;   // a part of the box is in the tensor
};
HOSTCUDA_UNSEEN inline BoxPieces make_pieces(const CUtensorMap &map, const int (&at)[5], unsigned rank, char *shared, bool loads, const char *what,
                                             const char *file, int line) {
    if (map.hostcuda_made != tensor_map_made || map.hostcuda_rank != rank)
        fail("%s at %s:%d: its map is none of a tensor with %u dimensions that cuTensorMapEncodeTiled has made", what, file, line, rank);
    if ((size_t)shared % 128)
        fail("%s at %s:%d: its address in shared memory is no multiple of 128 bytes, and a GPU stops there or hangs", what, file, line);
    size_t rows = (size_t)map.hostcuda_box[1] * map.hostcuda_box[2] * map.hostcuda_box[3] * map.hostcuda_box[4];
    size_t row_bytes = map.hostcuda_box[0] * map.hostcuda_element, most = rows * (map.hostcuda_swizzle ? row_bytes / 16 + 2 : 3);
    BoxPieces made{(Piece *)__builtin_malloc(most * sizeof(Piece)), 0, rows * row_bytes, false};
    visit_box(map, at, shared, [&](char *in_shared, const char *in_global, size_t bytes) HOSTCUDA_UNSEEN {
        made.is_inside |= in_global != nullptr;
        if (loads) made.pieces[made.count++] = {in_shared, in_global, bytes};
        else if (in_global) made.pieces[made.count++] = {(char *)in_global, in_shared, bytes};
    });
    return made;
}

// A copy of a box by one thread: to shared memory with an mbarrier, else from there.
HOSTCUDA_INLINED void copy_box(const void *map, const int (&at)[5], unsigned rank, char *shared, void *mbarrier,
                               void (*combine)(char *, const char *, size_t), const char *what, const char *file, int line) {
    BoxPieces box = make_pieces(*(const CUtensorMap *)map, at, rank, shared, mbarrier != nullptr, what, file, line);
    if (mbarrier) hostcuda_barrier_counts(mbarrier);
    hostcuda_bulk_reads(box.pieces, box.count, "a bulk copy");
    unsigned watched = hostcuda_bulk_writes(box.pieces, box.count, combine != nullptr);
    if (mbarrier) hostcuda_tile_copied(shared, box.bytes, ((const CUtensorMap *)map)->hostcuda_swizzle, file, line);
    if (!box.is_inside) hostcuda_box_outside(what, file, line);
    begin_bulk(box.pieces, box.count, mbarrier, combine, watched, false, what, file, line);
    __builtin_free(box.pieces);
}

}  // namespace hostcuda
