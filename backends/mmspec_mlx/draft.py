"""What drafters on this backend propose."""

import mlx.core as mx

from mmspec.draft import DeviceDraft


class MlxDraft(DeviceDraft[mx.array]):
    """A drafted chain or tree of this backend, which alone takes it."""

    __slots__ = ()
