"""Decoding rounds as fixed sequences of kernels, which CUDA replays as graphs."""
