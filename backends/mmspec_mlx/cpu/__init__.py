"""Faster matrix products with few rows for MLX on a CPU.

GPUs use MLX's own products."""
