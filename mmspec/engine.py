"""Target, draft and captioner loaded together: where the Python API starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

from mmspec.calibration import Calibration, CalibrationFile, calibration_file
from mmspec.captions import Captioner, CaptionTokens, ModelCaptioner
from mmspec.cards import Card, load_cards, present
from mmspec.chat import Chat
from mmspec.config import model_type
from mmspec.conversation import Conversation
from mmspec.drafting import NGRAM, PLAIN, Drafting
from mmspec.errors import HubError, UsageError
from mmspec.hub import resolve
from mmspec.images import Picture
from mmspec.lengths import AutoLength
from mmspec.loaded import LoadedHead, LoadedModel, load_model
from mmspec.options import Options
from mmspec.registry import load_backend, load_captioner, load_head
from mmspec.seam import Backend
from mmspec.sides import refuse
from mmspec.tokenizer import shared_vocabulary
from mmspec.tree import Tree

PREFERRED = "llava-1.5-7b"
BUNDLED = "mini"

Loading = partial[LoadedModel]
"""`load_model` with the backend and all choices that hold for every model."""


@dataclass(slots=True)
class Engine:
    """A loaded target and, perhaps, a draft; opens conversations."""

    backend: Backend
    target: LoadedModel
    draft: LoadedModel | None
    captioner: Captioner | None
    notes: list[str] = field(default_factory=list)
    """One line for every choice made by 'auto'."""
    load_seconds: float = 0.0
    draftless: str = PLAIN.word
    """How to draft without a draft where the options do not say: 'ngram' where 'auto' looked for
    one in vain, 'none' where none was wanted."""
    head: LoadedHead | None = None
    """Drafts in place of a draft model."""
    calibration: Calibration = field(default_factory=Calibration)
    """What rounds cost on this machine, as far as earlier sessions have measured it."""
    calibration_file: CalibrationFile | None = None
    """Where it is kept; None keeps nothing."""
    compared: dict[str, set[int]] = field(default_factory=dict)
    """Lengths, by drafting, that a plain forward was timed for, believed or not."""
    unkept: str = ""
    """A line on why it cannot be kept any more, until somebody has said so."""
    _captions: CaptionTokens | None = None
    _lengths: dict[tuple[Drafting, Tree | None], AutoLength] = field(default_factory=dict)

    @property
    def drafts(self) -> LoadedModel | LoadedHead | None:
        """The draft model or the head; None without either."""
        return self.draft or self.head

    @property
    def stop(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.target.tokenizer.eos_ids | frozenset(self.target.model.config.eos_token_ids)

    def chat(
        self, options: Options | None = None, conversation: Conversation | None = None
    ) -> Chat:
        """Open a conversation, or go on with a saved one."""
        return Chat(self, options or Options(), conversation or Conversation())

    def lengths(self, drafting: Drafting, tree: Tree | None = None) -> AutoLength:
        """What has been measured on this machine, over all conversations, to set draft lengths.

        Starts from the calibration, but for trees, whose costs it does not hold.
        """
        if (drafting, tree) not in self._lengths:
            known = {} if tree else self._known(drafting)
            self._lengths[drafting, tree] = AutoLength(known)
        return self._lengths[drafting, tree]

    def keep_costs(self, drafting: Drafting, seen: Mapping[int, float]) -> None:
        """Add what chains of this drafting were seen to cost to the calibration and its file.

        Does nothing where that is no news. What others have kept meanwhile stays.
        """
        file = self.calibration_file
        if not file or self.calibration.after(drafting, seen) is self.calibration:
            return
        kept, _ = file.read()
        self.calibration = kept.after(drafting, seen)
        try:
            file.write(self.calibration)
        except OSError as error:
            self.calibration_file = None
            self.unkept = f"costs of drafting not kept: {error}"

    def _known(self, drafting: Drafting) -> dict[int, float]:
        """Costs by length, of the lengths that a head can draft."""
        slots = self.head.head.config.slots if self.head and drafting != NGRAM else 0
        costs = self.calibration.costs(drafting)
        return {k: seconds for k, seconds in costs.items() if not slots or k <= slots}

    def caption(self, picture: Picture) -> Sequence[int]:
        """Token ids that stand for the image in the C view, computed once per image."""
        if self.captioner is None:
            raise UsageError("drafting C needs a captioner: load with a draft or a --captioner")
        if self._captions is None:
            self._captions = CaptionTokens(self.captioner, self.target.tokenizer)
        return self._captions(picture)

    def forget(self) -> None:
        """Drop what is kept of images, vision features and captions: the next chat pays again."""
        self._captions = None
        for loaded in filter(None, (self.target, self.draft)):
            if loaded.features:
                loaded.features.forget()
        if isinstance(self.captioner, ModelCaptioner):
            self.captioner.forget()


def load(
    model: str = "auto",
    draft: str = "auto",
    *,
    backend: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    quantize: str = "none",
    captioner: str = "auto",
    options: Options | None = None,
) -> Engine:
    """Load a target and its draft from cards, hub repositories or directories.

    draft: a model of its own, or a head, which is known by its files.
    quantize: 'int8', 'int4', 'int4-32' or 'int4-128' on torch: what the matrices of every model
    become.
    options: raises UsageError before any weights are read where the draft cannot do what they say.
    'auto' takes LLaVA-1.5-7B where it is on this machine, else the bundled pair, and the draft
    of the model's card; it degrades with a note.  What is named must be had, or an MmspecError
    says why not.
    """
    started = perf_counter()
    chosen = load_backend(backend)
    notes: list[str] = []
    name = _auto_model(chosen, notes) if model == "auto" else model
    directory = resolve(name, chosen.name)
    place = _find_draft(chosen, name, draft, notes)
    if options and place:
        refuse(options, *place)
    elif options:
        options.require_draft()
    loading = partial(load_model, chosen, device=device, dtype=dtype, quantize=quantize)
    target = loading(name, directory)
    found = _load_draft(loading, chosen, target, *place) if place else None
    head = found if isinstance(found, LoadedHead) else None
    drafted = None if isinstance(found, LoadedHead) else found
    seeing = next((each for each in (drafted, target) if each and each.features), None)
    describer = _captioner(loading, chosen, captioner, seeing)
    kept = calibration_file(chosen, target, drafted or head)
    calibration, note = kept.read()
    notes += [note] if note else []
    seconds = perf_counter() - started
    draftless = NGRAM.word if draft == "auto" else PLAIN.word
    engine = Engine(chosen, target, drafted, describer, notes, seconds, draftless, head)
    engine.calibration, engine.calibration_file = calibration, kept
    return engine


def _auto_model(backend: Backend, notes: list[str]) -> str:
    here = present(load_cards()[PREFERRED], backend.name)
    name = PREFERRED if here else BUNDLED
    notes.append(f"model: {name}" + ("" if here else " (bundled)"))
    return name


def _find_draft(
    backend: Backend, target: str, draft: str, notes: list[str]
) -> tuple[str, Path] | None:
    """The draft's name and directory; 'auto' does without where it is not here, and notes it."""
    if draft == "none":
        return None
    name = _pair(target) if draft == "auto" else draft
    if name is None:
        notes.append(f"draft: none (no card names one for {target}); drafting from n-grams")
        return None
    try:
        return name, resolve(name, backend.name)
    except HubError as error:
        if draft != "auto":
            raise
        notes.append(f"draft: none ({error}); drafting from n-grams")
        return None


def _load_draft(
    loading: Loading, backend: Backend, target: LoadedModel, name: str, directory: Path
) -> LoadedModel | LoadedHead:
    head = load_head(backend, directory, target.model)
    if head:
        return LoadedHead(name, directory, head)
    loaded = loading(name, directory, sharing=target.features)
    shared_vocabulary(target.tokenizer, loaded.tokenizer)
    return loaded


def _pair(name: str) -> str | None:
    card = _card_of(name)
    return card.pair if card else None


def _card_of(name: str) -> Card | None:
    """The card of that name, or the one whose repository it is."""
    cards = load_cards()
    return cards.get(name) or next(
        (card for card in cards.values() if name in card.sources.values()), None
    )


def _captioner(
    loading: Loading, backend: Backend, name: str, seeing: LoadedModel | None
) -> Captioner | None:
    """The named captioner, or the draft (else the target) asked for captions."""
    if name == "auto":
        return ModelCaptioner(seeing) if seeing else None
    directory = resolve(name, backend.name)
    kind = model_type(directory)
    if kind == "llava":
        return ModelCaptioner(loading(name, directory))
    return load_captioner(kind, directory)
