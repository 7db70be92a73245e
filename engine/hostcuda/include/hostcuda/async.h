// Copies in the background, from global to shared memory mostly.
//
// Here a copy is made at once: that is one of the orders that CUDA allows. So a kernel that forgets to wait for its copies
// works here, and may not on a GPU. Check mode follows the copies of single threads (cp.async) until they are waited for, and
// reports what reads them before.
#pragma once
#include <stddef.h>
#include <string.h>
#include "platform.h"
#include "vector_types.h"
#include "words.h"

#ifdef HOSTCUDA_CHECK
extern "C" HOSTCUDA_API void hostcuda_copy_begins(const void *to, size_t bytes);   // of the running thread
extern "C" HOSTCUDA_API void hostcuda_copies_committed();
extern "C" HOSTCUDA_API void hostcuda_copies_awaited(size_t prior);                // all but the last groups
#else
inline void hostcuda_copy_begins(const void *, size_t) {}
inline void hostcuda_copies_committed() {}
inline void hostcuda_copies_awaited(size_t) {}
#endif

namespace cuda {
template <size_t alignment> struct aligned_size_t;
}

namespace hostcuda {

// `bytes` from one address to another, by the member with this rank of a group of `members`. Both are a multiple of the
// same power of two, as wide as the copy's accesses.
template <class Word> inline void copy_words(char *to, const char *from, size_t bytes, size_t rank, size_t members) {
    for (size_t i = rank; i < bytes / sizeof(Word); i += members) ((Word *)to)[i] = ((const Word *)from)[i];
    size_t whole = bytes / sizeof(Word) * sizeof(Word);
    for (size_t i = whole + rank; i < bytes; i += members) to[i] = from[i];
}

template <class Bytes> constexpr size_t promised_alignment = 0;
template <size_t alignment> constexpr size_t promised_alignment<cuda::aligned_size_t<alignment>> = alignment;

// A copy of a number of bytes, or of a cuda::aligned_size_t, which promises that both addresses are aligned: then they are used
// as if they were, and check mode reports what is not.
template <class Bytes> inline size_t width_of_copy(const void *to, const void *from, const Bytes &bytes) {
    size_t together = promised_alignment<Bytes> ? promised_alignment<Bytes> : (size_t)to | (size_t)from | (size_t)bytes;
    return together % 16 == 0 ? 16 : together % 4 == 0 ? 4 : 1;
}

template <class Bytes> inline void copy_part(void *to, const void *from, const Bytes &bytes, size_t rank, size_t members) {
    size_t width = width_of_copy(to, from, bytes);
    if (width == 16) copy_words<uint4>((char *)to, (const char *)from, (size_t)bytes, rank, members);
    else if (width == 4) copy_words<unsigned>((char *)to, (const char *)from, (size_t)bytes, rank, members);
    else copy_words<char>((char *)to, (const char *)from, (size_t)bytes, rank, members);
}

// The first `bytes` of a word; the rest is zero.
template <class Word> inline void copy_word(void *to, const void *from, size_t bytes = sizeof(Word)) {
    if (bytes >= sizeof(Word)) {
        *(Word *)to = *(const Word *)from;
        return;
    }
    Word word{};
    for (size_t i = 0; i < bytes; i++) ((char *)&word)[i] = ((const char *)from)[i];
    *(Word *)to = word;
}

// A copy of 4, 8 or 16 bytes by one thread: the first `given` are copied, the others become zero. False: of another size.
inline bool copy_async(void *to, const void *from, size_t bytes, size_t given) {
#if defined(HOSTCUDA_CHECK) && defined(__wasm__)
    // On a GPU the copy loads, whatever its thread has loaded before. A page's clang would join the two loads: hide the address.
    asm volatile("" : "+r"(from));
#endif
    if (bytes == 16) copy_word<uint4>(to, from, given);
    else if (bytes == 8) copy_word<uint2>(to, from, given);
    else if (bytes == 4) copy_word<unsigned>(to, from, given);
    else return false;
    hostcuda_copy_begins(to, bytes);
    return true;
}

// The same, for a pipeline of the thread: it waits for the copy before it, or another thread, uses what is copied.
template <class Bytes> inline void copy_own_part(void *to, const void *from, const Bytes &bytes, size_t rank, size_t members) {
    copy_part(to, from, bytes, rank, members);
#ifdef HOSTCUDA_CHECK
    size_t word = width_of_copy(to, from, bytes);
    for (size_t at = rank * word; at < bytes; at += members * word) hostcuda_copy_begins((char *)to + at, bytes - at < word ? bytes - at : word);
#endif
}

}  // namespace hostcuda

namespace cuda {

// A number of bytes, at addresses that are a multiple of `alignment`.
template <size_t alignment> struct aligned_size_t {
    static constexpr size_t align = alignment;
    size_t value;
    explicit constexpr aligned_size_t(size_t value) : value(value) {}
    constexpr operator size_t() const { return value; }
};

}  // namespace cuda
