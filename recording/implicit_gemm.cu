// The convolution by CUTLASS's implicit GEMM for few channels: what recording.libraries measures beside the ladder.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -I$CUTLASS/include -shared -Xcompiler -fPIC -o cutlass.so
//
// x, k and y are NHWC: x [B, H, W, C], k [M, K, K, C], y [B, Ho, Wo, M]. M is a multiple of four. The tiles have 128 or
// 256 pixels and 32 maps, the narrowest ones of CUTLASS that four warps can load; the products are those of
// compute capability 8.0, for which CUTLASS has this iterator. A thread loads as many channels at once as divide C: 16
// bytes of them, four, or one, of halves then without asynchronous copies, which take at least four bytes. Where 16 bytes
// are all channels of a pixel, CUTLASS has an iterator for just that number, kFixedChannels.

#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/conv/device/implicit_gemm_convolution.h>
#include <cutlass/epilogue/thread/linear_combination.h>

namespace {

using namespace cutlass;

template <class T, class Operation, conv::IteratorAlgorithm Iterator, int Channels, int Pixels>
int launch(conv::Conv2dProblemSize size, const void *x, const void *k, void *y) {
    constexpr bool half = sizeof(T) == 2;
    constexpr int terms = half ? 32 : 16, stages = sizeof(T) * Channels < 4 ? 2 : 3;
    using Sums = epilogue::thread::LinearCombination<T, 4, float, float>;
    using Layout = layout::TensorNHWC;
    using Kernel = typename conv::kernel::DefaultConv2dFprop<
        T, Layout, T, Layout, T, Layout, float, arch::OpClassTensorOp, arch::Sm80,
        gemm::GemmShape<Pixels, 32, terms>, gemm::GemmShape<Pixels / 4, 32, terms>, gemm::GemmShape<16, 8, half ? 16 : 8>,
        Sums, gemm::threadblock::GemmIdentityThreadblockSwizzle<1>, stages, Operation,
        Iterator, conv::StrideSupport::kUnity, Channels, Channels>::Kernel;
    using Device = conv::device::ImplicitGemmConvolution<Kernel>;
    auto at = [](const void *p, Tensor4DCoord extent) {
        return TensorRef<T, Layout>((T *)p, Layout::packed(extent));
    };
    auto out = at(y, size.output_extent());
    typename Device::Arguments arguments(size, at(x, size.activation_extent()), at(k, size.filter_extent()), out, out,
                                         {1.0f, 0.0f});
    Status status = Device::can_implement(arguments);
    Device device;
    if (status == Status::kSuccess) status = device.initialize(arguments);
    if (status == Status::kSuccess) status = device.run();
    return (int)status;
}

template <class T, class Operation, int Pixels>
int choose(conv::Conv2dProblemSize size, const void *x, const void *k, void *y) {
    constexpr auto fixed = conv::IteratorAlgorithm::kFixedChannels, few = conv::IteratorAlgorithm::kFewChannels;
    constexpr int most = 16 / sizeof(T);
    if (size.C == most) return launch<T, Operation, fixed, most, Pixels>(size, x, k, y);
    if (size.C % most == 0) return launch<T, Operation, few, most, Pixels>(size, x, k, y);
    if (size.C % 4 == 0) return launch<T, Operation, few, 4, Pixels>(size, x, k, y);
    return launch<T, Operation, few, 1, Pixels>(size, x, k, y);
}

template <class T, class Operation>
int choose(int pixels, conv::Conv2dProblemSize size, const void *x, const void *k, void *y) {
    return pixels == 128 ? choose<T, Operation, 128>(size, x, k, y) : choose<T, Operation, 256>(size, x, k, y);
}

}  // namespace

// Mode 0 is half; 1 is float with TF32 products; 2 is float with three TF32 products for one. 0 is success.
extern "C" int convolve(int mode, int pixels, int B, int C, int H, int W, int M, int K, const void *x, const void *k,
                        void *y) {
    conv::Conv2dProblemSize size({B, H, W, C}, {M, K, K, C}, {0, 0, 0, 0}, {1, 1}, {1, 1},
                                 conv::Mode::kCrossCorrelation, 1);
    if (mode == 0) return choose<half_t, arch::OpMultiplyAdd>(pixels, size, x, k, y);
    if (mode == 1) return choose<float, arch::OpMultiplyAdd>(pixels, size, x, k, y);
    return choose<float, arch::OpMultiplyAddFastF32>(pixels, size, x, k, y);
}
