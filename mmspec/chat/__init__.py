"""The Python API: loaded models and conversations with them.

The terminal's interface is in `mmspec_cli`.
"""
