"""Sequences on MLX: one conversation's tokens, for the target and for draft branches."""
