"""Draft lengths: how many tokens a round drafts, fixed or from measured costs.

Nothing here depends on drafters or models.
"""
