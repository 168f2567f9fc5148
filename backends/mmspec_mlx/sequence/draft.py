"""Drafts of the MLX backend."""

import mlx.core as mx

from mmspec.decoding.draft import DeviceDraft


class MlxDraft(DeviceDraft[mx.array]):
    """A drafted chain or tree; only this backend's targets can verify it."""

    __slots__ = ()
