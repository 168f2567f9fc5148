"""Matrix products and norms that are faster on a CPU when they have few rows.

On other devices PyTorch's own are used.
"""
