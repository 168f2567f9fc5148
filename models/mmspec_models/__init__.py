"""Model cards, and the weights of the bundled target `mini` and its drafts.

The code that reads cards is in `mmspec.checkpoints`.
"""
