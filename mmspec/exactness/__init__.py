"""Whether a model on this machine can decode exactly: a probe, and its finding in a file."""
