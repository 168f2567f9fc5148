"""Predictive heads: drafters that read the hidden states of the one target they were trained for.

Layers and attention are in the backends.
"""
