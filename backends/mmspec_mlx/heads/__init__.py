"""Predictive heads on MLX; see `mmspec.heads`."""
