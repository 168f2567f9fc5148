"""What the networks are made of on a device: tensors and types, products, norms, functions."""
