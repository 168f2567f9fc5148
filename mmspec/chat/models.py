"""Models loaded together on one backend: a target, its draft and a captioner."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mmspec.chat.captions import Captioner, ModelCaptioner
from mmspec.chat.loaded_model import LoadedHead, LoadedModel
from mmspec.drafters.views import PLAIN
from mmspec.errors import UsageError
from mmspec.prompt.images import Picture
from mmspec.seam import InspectableBackend


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """A target and, optionally, a draft model or head, and a captioner."""

    backend: InspectableBackend
    target: LoadedModel
    draft: LoadedModel | None = None
    captioner: Captioner | None = None
    head: LoadedHead | None = None
    """The head that drafts in place of a draft model, if one is loaded."""
    draftless: str = PLAIN.spec
    """The default drafting without a draft: 'ngram' if 'auto' found no draft, else 'none'."""
    notes: list[str] = field(default_factory=list)
    """One line for each choice made by 'auto'."""
    load_seconds: float = 0.0
    _captions: dict[str, Sequence[int]] = field(default_factory=dict, init=False)

    @property
    def drafts(self) -> LoadedModel | LoadedHead | None:
        """The draft model or the head; None if neither is loaded."""
        return self.draft or self.head

    @property
    def stop(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.target.stop

    def caption(self, picture: Picture) -> Sequence[int]:
        """Token ids, without BOS, that replace the image in view C; computed once per image."""
        if self.captioner is None:
            raise UsageError("drafting C needs a captioner: load with a draft or a --captioner")
        if picture.digest not in self._captions:
            text = f"image: {self.captioner.caption(picture)}"
            self._captions[picture.digest] = self.target.tokenizer.encode(text)
        return self._captions[picture.digest]

    def forget(self) -> None:
        """Drop vision features and captions, so that the next chat computes them again."""
        self._captions.clear()
        for loaded in (self.target, self.draft):
            if loaded and loaded.features:
                loaded.features.forget()
        if isinstance(self.captioner, ModelCaptioner):
            self.captioner.forget()
