"""Predictive heads on MLX: their layer and tensors.

What heads compute is in `mmspec.drafters.heads`.
"""
