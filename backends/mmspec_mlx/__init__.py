"""The MLX backend: LLaVA, Qwen and Llama on Apple's GPUs, and on the CPU of a Mac or of Linux.

Decoding's algorithm is in `mmspec`; training is in `mmspec_train`.
"""

from mmspec_mlx.device import blas

# mlx.core binds its matrix products on import, so this must come first.
blas.prepare()
