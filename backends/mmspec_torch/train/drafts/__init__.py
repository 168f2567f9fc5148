"""Small models that draft for a target: the four baselines, and what a target teaches them."""
