"""Full-size checkpoints of random weights, and measured costs of forwards on them.

Measurements of trained models are in `measure`.
"""
