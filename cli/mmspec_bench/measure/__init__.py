"""Measurements in pairs: speed; and the costs of forwards and drafted tokens."""
