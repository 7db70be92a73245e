"""NVIDIA's tools: Nsight Compute, compute-sanitizer, nvcc and CUPTI."""
