"""Layers of decoders and towers over PyTorch tensors."""
