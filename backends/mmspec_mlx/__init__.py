"""The MLX backend: LLaVA and Llama on Apple's GPUs, and on the CPU of a Mac or of Linux."""

from mmspec_mlx import blas

# Before anything here imports mlx.core: it binds its matrix products on import.
blas.prepare()
