"""Layers of decoders and towers over MLX arrays.

Sequences, which know how many cache columns are valid, are in `sequence`."""
