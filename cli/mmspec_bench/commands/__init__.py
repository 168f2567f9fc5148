"""The commands of `mmspec bench`."""
