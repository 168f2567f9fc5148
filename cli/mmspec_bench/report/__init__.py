"""Reports on benchmark runs: tables, figures and coloured answers.

The measures are computed in `suite`.
"""
