"""Draft lengths: how many tokens a round drafts, fixed or from measured costs."""
