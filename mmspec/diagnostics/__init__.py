"""Checks of an installation: losslessness, agreement of backends, doctor."""
