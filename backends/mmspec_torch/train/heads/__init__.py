"""Predictive heads as modules to train; their tensors are named as `mmspec.heads.manifest` says."""
