"""The family that docs/extending.md describes, as another package would hold it."""
