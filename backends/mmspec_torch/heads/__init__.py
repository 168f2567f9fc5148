"""Predictive heads on PyTorch; see `mmspec.heads`."""
