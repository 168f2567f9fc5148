"""Benchmarks: workloads, measurements and reports."""
