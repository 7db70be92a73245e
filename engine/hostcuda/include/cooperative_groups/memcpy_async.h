// Cooperative groups: memcpy_async, wait and wait_prior. See hostcuda/async.h for when a copy is made.
#pragma once
#include "../hostcuda.h"
#include "../hostcuda/async.h"

namespace cooperative_groups {

// Of all threads of the group: a number of bytes.
template <class Group, class T, class Bytes>
inline void memcpy_async(const Group &group, T *to, const T *from, const Bytes &bytes) {
    hostcuda::copy_part(to, from, bytes, group.thread_rank(), group.num_threads());
}
template <class Group, class Bytes>
inline void memcpy_async(const Group &group, void *to, const void *from, const Bytes &bytes) {
    hostcuda::copy_part(to, from, bytes, group.thread_rank(), group.num_threads());
}
// The same with the number of elements that there is room for, and the number that there are.
template <class Group, class T, class Room, class Count>
inline void memcpy_async(const Group &group, T *to, const Room &room, const T *from, const Count &count) {
    size_t elements = (size_t)room < (size_t)count ? (size_t)room : (size_t)count;
    hostcuda::copy_part(to, from, elements * sizeof(T), group.thread_rank(), group.num_threads());
}

template <class Group> inline void wait(const Group &group, HOSTCUDA_HERE) { group.sync(file, line); }
template <unsigned stages, class Group> inline void wait_prior(const Group &group, HOSTCUDA_HERE) { group.sync(file, line); }

}  // namespace cooperative_groups
