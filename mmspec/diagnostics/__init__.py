"""Checks of an installation: losslessness, parity of backends, doctor.

Benchmarks are in `mmspec_bench`.
"""
