"""Faster matrix products and norms with few rows on a CPU.

Other devices use PyTorch's own."""
