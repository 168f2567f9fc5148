"""Predictive heads: drafters that read the hidden states of the target they were trained for."""
