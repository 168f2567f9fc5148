"""Drafters: a draft model with views of the prompt, lookup, heads; backends have the networks."""
