"""Predictive heads on PyTorch: their layer and tensors.

What heads compute is in `mmspec.drafters.heads`.
"""
