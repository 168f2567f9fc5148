"""Training of a small LLaVA and its draft from random weights, on the synthetic world.

Heads and drafts for other targets are in `heads` and `drafts`.
"""
