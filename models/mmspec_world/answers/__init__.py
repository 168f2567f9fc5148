"""The wording of answers and descriptions, and the facts that they state.

The judge of facts is in `mmspec_world.facts`."""
