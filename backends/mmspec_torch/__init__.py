"""The PyTorch backend: LLaVA and Llama on CUDA, Apple's MPS, or a CPU."""
