"""Matrix products and norms that are faster for MLX on a CPU when they have few rows.

GPUs use MLX's own.
"""
