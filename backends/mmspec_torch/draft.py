"""What drafters on this backend propose.

Shape letters: R branches, V vocabulary.
"""

from typing import NamedTuple

from torch import Tensor

from mmspec.draft import DeviceDraft


class Choice(NamedTuple):
    """A drafted token and what it was chosen from."""

    token: Tensor
    """[1]"""
    q: Tensor | None = None
    """[V] what it was drawn from; None where it is the argmax."""
    rows: Tensor | None = None
    """[R, V] what each branch said; None where one was asked for its argmax."""


class TorchDraft(DeviceDraft[Tensor]):
    """A drafted chain or tree of this backend, which alone takes it."""

    __slots__ = ()
