"""Drafters: a draft model with several views of the prompt, n-gram lookup, heads.

Their tensors are in the backends.
"""
