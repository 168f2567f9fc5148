"""What a CUDA graph does, done on a CPU: kernels recorded once, then run again on the same memory.

A number that the host put into a kernel stays what it was when recording, as in a graph.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
FORBIDDEN = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten.lift_fresh.default,
}
"""What a graph cannot hold: reads by the host, shapes that follow values, numbers of the host."""


class Recorder(TorchDispatchMode):
    """Runs and keeps what is enqueued."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func not in FORBIDDEN, f"{func} cannot be captured"
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out

    def replay(self):
        for func, args, kwargs, out in self.calls:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recording:
    """A `Capture` that counts."""

    def __init__(self):
        self.captured = self.replayed = 0

    def __call__(self, compute):
        self.captured += 1
        with Recorder() as recorder:
            outputs = compute()

        def replay():
            self.replayed += 1
            recorder.replay()
            return tuple(output.clone() for output in outputs)

        return replay
