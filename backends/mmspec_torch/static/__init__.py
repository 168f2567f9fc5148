"""Rounds as fixed sequences of kernels, which a GPU can be given at once as a graph.

Buffers have fixed places and sizes, and positions are numbers on the device, so that what is
enqueued depends on the shape of a round alone. The same computation runs eagerly anywhere.
"""
