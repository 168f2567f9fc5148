"""LLaVA's and Llama's layers over MLX arrays.

Sequences, which know how many cache columns are valid, are in `sequence`."""
