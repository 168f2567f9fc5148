"""Answers and descriptions, the facts that they state, and the wording of all texts.

The judge of facts is in `mmspec_world.facts`."""
