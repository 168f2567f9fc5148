"""Errors, files, JSON, progress and array types: what every other room uses."""
