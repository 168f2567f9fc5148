"""The report of `doctor --full`: measurements of a pair on every installed backend, in one file.

Each measurement alone is in `measure`, `compare` or `mmspec.exactness`.
"""
