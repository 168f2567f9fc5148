"""Training of small models that draft for a target, among them four published baselines."""
