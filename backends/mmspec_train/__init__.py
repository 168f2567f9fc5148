"""Training in PyTorch: the bundled pair, and heads and drafts for any target.

Decoding is in `mmspec` and `mmspec_torch`, the commands in `mmspec_cli`.
"""
