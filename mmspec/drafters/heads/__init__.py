"""Predictive heads: drafters that read the target's hidden states and work with no other model."""
