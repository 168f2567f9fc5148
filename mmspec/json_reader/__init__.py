"""Reads JSON values against the type annotations of the dataclasses that hold them."""
