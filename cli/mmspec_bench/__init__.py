"""Benchmarks: what they ask, measurements, comparisons and reports.

The program that is measured is `mmspec`.
"""
