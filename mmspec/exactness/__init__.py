"""Whether a model on this machine can decode exactly, found out by a probe and kept in a file.

How rows are fed exactly is in `mmspec.decoding`.
"""
