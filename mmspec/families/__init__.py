"""Families of models: config, tensors, image preprocessing, prompt and positions, a file each.

The tower and the projector of a family are in each backend's `network/`, in a file of that name.
"""
