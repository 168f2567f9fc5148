"""The PyTorch backend: LLaVA, Qwen and Llama on CUDA, Apple's MPS, or a CPU.

Decoding's algorithm is in `mmspec`; training is in `mmspec_train`.
"""

from mmspec_torch.device.openmp import short_waits

# OpenMP reads how to wait when PyTorch loads it, and never again.
with short_waits():
    import torch as torch
