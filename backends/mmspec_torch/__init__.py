"""The PyTorch backend: LLaVA and Llama on CUDA, Apple's MPS, or a CPU.

Decoding's algorithm is in `mmspec`; training is in `mmspec_train`.
"""
