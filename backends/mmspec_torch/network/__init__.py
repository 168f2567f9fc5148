"""Layers of decoders and towers over PyTorch tensors.

Sequences, which know how many cache columns are valid, are in `sequence`."""
