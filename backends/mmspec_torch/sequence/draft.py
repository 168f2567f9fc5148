"""Drafts of the PyTorch backend."""

from torch import Tensor

from mmspec.decoding.draft import DeviceDraft


class TorchDraft(DeviceDraft[Tensor]):
    """A drafted chain or tree; only this backend's targets can verify it."""

    __slots__ = ()
