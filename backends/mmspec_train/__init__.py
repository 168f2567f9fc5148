"""Training in PyTorch: the bundled pair, and heads and drafts for any target."""
