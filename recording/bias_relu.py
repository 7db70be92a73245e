"""relu(x + b) as an operation of PyTorch, from kernels of one's own, with its gradient."""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

HERE = Path(__file__).parent
DECLARATIONS = """
torch::Tensor forward(torch::Tensor x, torch::Tensor b);
std::vector<torch::Tensor> backward(torch::Tensor dy, torch::Tensor y);
"""


def build(gradients: str, name: str):
    """Compile the kernels; return relu(x + b) as a function of x [B, M, H, W] and b [M], tensors on the GPU.

    PyTorch can differentiate it. `gradients` is the CUDA C++ source of the kernel that computes the
    gradients. `name` is the name of the extension, under which PyTorch caches what it compiled.
    """
    extension = load_inline(
        name,
        cpp_sources=DECLARATIONS,
        cuda_sources=[
            (HERE / "bias_relu.cu").read_text(),
            gradients,
            (HERE / "bias_relu.cpp").read_text(),
        ],
        functions=["forward", "backward"],
    )

    class BiasReLU(torch.autograd.Function):
        """The operation: its result, and the gradients of its two arguments."""

        @staticmethod
        def forward(ctx, x, b):
            """Return y = relu(x + b), and keep it in `ctx` for the gradients."""
            y = extension.forward(x, b)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, dy):
            """Return the gradients of x and of b, from that of y."""
            (y,) = ctx.saved_tensors
            # the extension takes contiguous tensors alone
            return tuple(extension.backward(dy.contiguous(), y))

    return BiasReLU.apply
