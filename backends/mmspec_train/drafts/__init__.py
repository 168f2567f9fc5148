"""Training of small models that draft for a target, among them four published baselines.

Heads are in `heads`; the bundled pair, trained from random weights, is in `mini`.
"""
