"""Model cards and the bundled pair.

The code that reads cards is in `mmspec.checkpoints`.
"""
