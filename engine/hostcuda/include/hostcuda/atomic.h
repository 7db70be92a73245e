// CUDA's atomic functions on global and shared memory, for all types that CUDA supports.
//
// Blocks run on several worker threads at the same time, so these are the processor's atomic operations, or a
// compare-and-swap loop for those that it does not have (float additions, saturating counters). As in CUDA they do not
// order other accesses; the _system forms are the same here, and so are the _block forms but for check mode. A loop around atomicCAS or atomicExch usually
// waits for another thread, and the threads of a block share a worker. So these two let other threads run from time to
// time; otherwise a spin lock would not end. An addition of 0 is a read, which a loop may also repeat.
#pragma once
#include <string.h>
#include <type_traits>
#include "bfloat16.h"
#include "half.h"
#include "sync.h"
#include "vector_types.h"

#ifdef HOSTCUDA_CHECK
// Check mode has one worker. The first call records the operation, the second one the store. The old value comes from a
// third call, which the compiler removes if the value is not used: then, as for nvcc, the operation is a reduction (red)
// instead of an atomic operation (atom). The highest bit of its `place` says that the value is an integer,
// the next one that the allocation holds no other value.
struct hostcuda_old {
    unsigned long long value, place;
};
extern "C" HOSTCUDA_API hostcuda_old hostcuda_atomic_begin(const void *address, size_t bytes, bool reads, bool always_atom,
                                                           bool of_block);
extern "C" HOSTCUDA_API void hostcuda_atomic_end(void *address, unsigned long long value, size_t bytes);
extern "C" HOSTCUDA_API unsigned long long hostcuda_atomic_result(unsigned long long value, unsigned long long place)
    __attribute__((const));
#endif

namespace hostcuda {

// Where an address is: 's' in shared memory, 'l' on the stack of a thread, 'g' elsewhere.
HOSTCUDA_API char space_of(const void *address);

// As a GPU adds floats: in global memory, but not in shared memory, subnormal numbers are zeros.
__attribute__((noinline, cold)) inline float add_subnormal(const float *address, float old, float value) {
    return space_of(address) == 's' ? old + value : flush(flush(old) + flush(value));
}
inline float add_in_memory(const float *address, float old, float value) {
    float sum = old + value;
    bool rare = is_subnormal(old) || is_subnormal(value) || is_subnormal(sum);
    return __builtin_expect(rare, 0) ? add_subnormal(address, old, value) : sum;
}

#ifdef HOSTCUDA_CHECK
// Replaces *address by update(old) and returns the old value.
template <class Word, class T, class Update>
inline __attribute__((always_inline)) T atomic_update(T *address, Update update, bool of_block = false, bool reads = true, bool always_atom = false) {
    static_assert(sizeof(Word) == sizeof(T), "a word must hold the value");
    hostcuda_old old = hostcuda_atomic_begin(address, sizeof(T), reads, always_atom, of_block);
    Word before = (Word)old.value, after;
    T value, changed;
    memcpy((void *)&value, &before, sizeof value);
    changed = update(value);
    memcpy(&after, (const void *)&changed, sizeof after);
    hostcuda_atomic_end(address, after, sizeof(T));
    before = (Word)hostcuda_atomic_result(old.value, old.place | (unsigned long long)std::is_integral<T>::value << 63);
    memcpy((void *)&value, &before, sizeof value);
    return value;
}

template <int bytes> struct word_of;
template <> struct word_of<2> { typedef uint16_t type; };
template <> struct word_of<4> { typedef uint32_t type; };
template <> struct word_of<8> { typedef uint64_t type; };
#else
// Replaces *address by update(old) atomically and returns the old value. Word: the unsigned integer with T's
// size.
template <class Word, class T, class Update> inline T atomic_update(T *address, Update update, bool = false) {
    static_assert(sizeof(Word) == sizeof(T), "a word must hold the value");
    Word *word = (Word *)address;
    Word old = __atomic_load_n(word, __ATOMIC_RELAXED), fresh;
    T value, changed;
    do {
        memcpy(&value, &old, sizeof value);
        changed = update(value);
        memcpy(&fresh, &changed, sizeof fresh);
    } while (!__atomic_compare_exchange_n(word, &old, fresh, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return value;
}
#endif

}  // namespace hostcuda

#ifdef HOSTCUDA_CHECK
#define HOSTCUDA_AT_CALL __attribute__((artificial))   // the line of an operation is that of its call
#else
#define HOSTCUDA_AT_CALL
#endif

// name, name_block and name_system with one body. HOSTCUDA_LAZY: what a kernel does not call takes no time to compile.
#define HOSTCUDA_ATOMIC(T, name, parameters, ...)                                                       \
    HOSTCUDA_LAZY HOSTCUDA_AT_CALL inline T name parameters { [[maybe_unused]] const bool of_block = false; __VA_ARGS__ }        \
    HOSTCUDA_LAZY HOSTCUDA_AT_CALL inline T name##_block parameters { [[maybe_unused]] const bool of_block = true; __VA_ARGS__ } \
    HOSTCUDA_LAZY HOSTCUDA_AT_CALL inline T name##_system parameters { [[maybe_unused]] const bool of_block = false; __VA_ARGS__ }

#ifdef HOSTCUDA_CHECK
#define HOSTCUDA_ATOMIC_FETCH(T, name, operation, sign)                                                 \
    HOSTCUDA_ATOMIC(T, name, (T *address, T value),                                                     \
                  typedef hostcuda::word_of<sizeof(T)>::type Word;                                      \
                  if (value == 0) hostcuda::maybe_yield();                                              \
                  return hostcuda::atomic_update<Word>(                                                 \
                      address, [=](T old) -> T { return (T)((Word)old sign (Word)value); }, of_block);)
#else
#define HOSTCUDA_ATOMIC_FETCH(T, name, operation, sign)                                                 \
    HOSTCUDA_ATOMIC(T, name, (T *address, T value),                                                     \
                  if (value == 0) hostcuda::maybe_yield();                                              \
                  return __atomic_fetch_##operation(address, value, __ATOMIC_RELAXED);)
#endif
#define HOSTCUDA_ATOMIC_UPDATE(T, Word, name, expression)                                               \
    HOSTCUDA_ATOMIC(T, name, (T *address, T value),                                                     \
                  return hostcuda::atomic_update<Word>(address, [=](T old) -> T { return expression; }, of_block);)

#define HOSTCUDA_ATOMIC_INTEGER(T, Word)                                                                \
    HOSTCUDA_ATOMIC_FETCH(T, atomicAnd, and, &)                                                         \
    HOSTCUDA_ATOMIC_FETCH(T, atomicOr, or, |)                                                           \
    HOSTCUDA_ATOMIC_FETCH(T, atomicXor, xor, ^)                                                         \
    HOSTCUDA_ATOMIC_UPDATE(T, Word, atomicMin, value < old ? value : old)                               \
    HOSTCUDA_ATOMIC_UPDATE(T, Word, atomicMax, value > old ? value : old)

#ifdef HOSTCUDA_CHECK
#define HOSTCUDA_ATOMIC_EXCHANGE(T, Word)                                                               \
    HOSTCUDA_ATOMIC(T, atomicExch, (T *address, T value),                                               \
                  hostcuda::maybe_yield();                                                              \
                  return hostcuda::atomic_update<Word>(address, [=](T) { return value; }, of_block, false, true);)
#define HOSTCUDA_ATOMIC_CAS(T)                                                                          \
    HOSTCUDA_ATOMIC(T, atomicCAS, (T *address, T compare, T value),                                     \
                  hostcuda::maybe_yield();                                                              \
                  return hostcuda::atomic_update<hostcuda::word_of<sizeof(T)>::type>(                     \
                      address, [=](T old) { return old == compare ? value : old; }, of_block, true, true);)
#else
#define HOSTCUDA_ATOMIC_EXCHANGE(T, Word)                                                               \
    HOSTCUDA_ATOMIC(T, atomicExch, (T *address, T value),                                               \
                  hostcuda::maybe_yield();                                                              \
                  Word fresh, old; memcpy(&fresh, &value, sizeof fresh);                              \
                  old = __atomic_exchange_n((Word *)address, fresh, __ATOMIC_SEQ_CST);                \
                  memcpy(&value, &old, sizeof value);                                                 \
                  return value;)
#define HOSTCUDA_ATOMIC_CAS(T)                                                                          \
    HOSTCUDA_ATOMIC(T, atomicCAS, (T *address, T compare, T value),                                     \
                  hostcuda::maybe_yield();                                                              \
                  __atomic_compare_exchange_n(address, &compare, value, false,                        \
                                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                    \
                  return compare;)
#endif

HOSTCUDA_ATOMIC_FETCH(int, atomicAdd, add, +)
HOSTCUDA_ATOMIC_FETCH(unsigned int, atomicAdd, add, +)
HOSTCUDA_ATOMIC_FETCH(unsigned long long, atomicAdd, add, +)
HOSTCUDA_ATOMIC_UPDATE(float, uint32_t, atomicAdd, hostcuda::add_in_memory(address, old, value))
HOSTCUDA_ATOMIC_UPDATE(double, uint64_t, atomicAdd, old + value)
HOSTCUDA_ATOMIC_UPDATE(__half, uint16_t, atomicAdd, __hadd(old, value))
HOSTCUDA_ATOMIC_UPDATE(__half2, uint32_t, atomicAdd, __hadd2(old, value))
HOSTCUDA_ATOMIC_UPDATE(__nv_bfloat16, uint16_t, atomicAdd, __hadd(old, value))
HOSTCUDA_ATOMIC_UPDATE(__nv_bfloat162, uint32_t, atomicAdd, __hadd2(old, value))
HOSTCUDA_ATOMIC_FETCH(int, atomicSub, sub, -)
HOSTCUDA_ATOMIC_FETCH(unsigned int, atomicSub, sub, -)

HOSTCUDA_ATOMIC_INTEGER(int, uint32_t)
HOSTCUDA_ATOMIC_INTEGER(unsigned int, uint32_t)
HOSTCUDA_ATOMIC_INTEGER(unsigned long long, uint64_t)
HOSTCUDA_ATOMIC_UPDATE(long long, uint64_t, atomicMin, value < old ? value : old)
HOSTCUDA_ATOMIC_UPDATE(long long, uint64_t, atomicMax, value > old ? value : old)

// Counters: up to value, then 0; down to 0, then value.
HOSTCUDA_ATOMIC_UPDATE(unsigned int, uint32_t, atomicInc, old >= value ? 0u : old + 1u)
HOSTCUDA_ATOMIC_UPDATE(unsigned int, uint32_t, atomicDec, old == 0u || old > value ? value : old - 1u)

HOSTCUDA_ATOMIC_EXCHANGE(int, uint32_t)
HOSTCUDA_ATOMIC_EXCHANGE(unsigned int, uint32_t)
HOSTCUDA_ATOMIC_EXCHANGE(unsigned long long, uint64_t)
HOSTCUDA_ATOMIC_EXCHANGE(float, uint32_t)

HOSTCUDA_ATOMIC_CAS(int)
HOSTCUDA_ATOMIC_CAS(unsigned int)
HOSTCUDA_ATOMIC_CAS(unsigned long long)
HOSTCUDA_ATOMIC_CAS(unsigned short)

// float2 and float4: each member is updated atomically, but not the whole vector.
HOSTCUDA_ATOMIC(float2, atomicAdd, (float2 *address, float2 value),
              return float2{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};)
HOSTCUDA_ATOMIC(float4, atomicAdd, (float4 *address, float4 value),
              return float4{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y),
                            atomicAdd(&address->z, value.z), atomicAdd(&address->w, value.w)};)

#undef HOSTCUDA_ATOMIC
#undef HOSTCUDA_AT_CALL
#undef HOSTCUDA_ATOMIC_FETCH
#undef HOSTCUDA_ATOMIC_UPDATE
#undef HOSTCUDA_ATOMIC_INTEGER
#undef HOSTCUDA_ATOMIC_EXCHANGE
#undef HOSTCUDA_ATOMIC_CAS
