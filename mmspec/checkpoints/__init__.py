"""Checkpoint files: configs, manifests, tensor headers, the hub, cards; backends read weights."""
