// What PyTorch calls: check the tensors, make the results, launch on PyTorch's stream.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

static void require(const torch::Tensor &t, const char *name)
{
    TORCH_CHECK(t.is_cuda() && t.scalar_type() == torch::kFloat && t.is_contiguous(), name,
                ": a contiguous float tensor on a GPU is needed");
}

torch::Tensor forward(torch::Tensor x, torch::Tensor b)
{
    require(x, "x");
    require(b, "b");
    TORCH_CHECK(x.dim() == 4 && b.numel() == x.size(1), "x is [B,C,H,W], b is [C]");
    const c10::cuda::CUDAGuard guard(x.device());           // launch where the tensors are
    torch::Tensor y = torch::empty_like(x);
    const int C = x.size(1), area = x.size(2) * x.size(3);
    if (x.numel())
        bias_relu<<<x.size(0) * C, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), C, area);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

std::vector<torch::Tensor> backward(torch::Tensor dy, torch::Tensor y)
{
    require(dy, "dy");
    require(y, "y");
    TORCH_CHECK(dy.sizes() == y.sizes(), "dy and y differ in shape");
    const c10::cuda::CUDAGuard guard(y.device());
    const int C = y.size(1), area = y.size(2) * y.size(3);
    torch::Tensor dx = torch::empty_like(y), db = torch::zeros({C}, y.options());
    if (y.numel())
        gradients<<<y.size(0) * C, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
            dy.data_ptr<float>(), y.data_ptr<float>(), dx.data_ptr<float>(), db.data_ptr<float>(), C, area);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {dx, db};
}
