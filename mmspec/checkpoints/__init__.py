"""Checkpoint files: configs, manifests, tensor headers, the hub and model cards.

Only the backends read weights.
"""
