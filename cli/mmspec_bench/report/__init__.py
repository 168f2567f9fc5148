"""Reports on benchmark runs: tables and a figure.

The measures are computed in `suite`.
"""
