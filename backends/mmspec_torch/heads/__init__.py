"""Predictive heads on PyTorch: their layer and tensors. `mmspec.drafters.heads` has the rest."""
