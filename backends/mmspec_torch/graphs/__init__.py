"""Decoding rounds as fixed sequences of kernels, which CUDA replays as graphs.

Buffers have fixed addresses and sizes, and positions are numbers on the device, so that the
kernels depend only on the shape of a round. The same code runs eagerly on any device.
"""
