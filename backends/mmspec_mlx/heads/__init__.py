"""Predictive heads on MLX: their layer and tensors. `mmspec.drafters.heads` has the rest."""
