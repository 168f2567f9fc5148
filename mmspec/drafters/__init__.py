"""Drafters: a draft model with several views of the prompt, n-gram lookup, heads.

Tensors and networks are in the backends.
"""
