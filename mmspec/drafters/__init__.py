"""Drafters: a draft model with several views of the prompt, lookup, heads.

Tensors and networks are in the backends.
"""
