"""What the networks are made of on a device: arrays and types, products, norms, functions."""
