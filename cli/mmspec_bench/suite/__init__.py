"""The benchmark suite: every sample answered by every method, one row for each answer."""
