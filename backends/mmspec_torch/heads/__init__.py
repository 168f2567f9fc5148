"""Predictive heads on PyTorch; see `mmspec.drafters.heads`."""
