"""Workloads, metrics and reports."""
