"""Training in PyTorch: heads and drafts for any target, and a target that sees."""
