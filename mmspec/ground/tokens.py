"""Ids that stand where no token is; those of tokens are 0 and more."""

NO_TOKEN = -1
"""An image, one of its positions, or the place after an answer that has ended."""
PADDING = -2
"""A column where only a longer row has something."""
