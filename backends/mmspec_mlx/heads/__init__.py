"""Predictive heads on MLX; see `mmspec.drafters.heads`."""
