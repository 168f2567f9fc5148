"""Layers of decoders and towers over MLX arrays."""
