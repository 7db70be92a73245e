"""NVIDIA's tools: Nsight Compute, compute-sanitizer, nvcc, nvdisasm and CUPTI."""
