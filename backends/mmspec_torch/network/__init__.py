"""LLaVA's and Llama's layers over PyTorch tensors.

Sequences, which know how many cache columns are valid, are in `sequence`."""
