// cuda::std is the C++ library. Its atomic types are those of <cuda/atomic>.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cuda {
namespace std {

using namespace ::std;

}  // namespace std
}  // namespace cuda
