"""Comparison with other projects: one script per program, run in turn in separate processes.

Measurements of this project alone are in `measure`.
"""
