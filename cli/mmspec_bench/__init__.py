"""Benchmarks of mmspec: prompts, measurements, comparisons with other programs, reports."""
