"""Families of models, a file each: config, tensors, image preprocessing, positions and tower."""
