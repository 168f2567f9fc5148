"""Loads target, draft and captioner together: the entry point of the Python API."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

from mmspec.chat.captions import Captioner, ModelCaptioner, read_captions
from mmspec.chat.chat import Chat
from mmspec.chat.draft_selection import DraftPlace, refuse
from mmspec.chat.first_costs import measure_first_costs
from mmspec.chat.loaded_model import ITEM_BYTES, LoadedHead, LoadedModel, load_model, untied_note
from mmspec.chat.memory import read_draft_text
from mmspec.chat.models import Models
from mmspec.chat.options import Options
from mmspec.chat.plugin_head import plugin_head
from mmspec.chat.plugins import (
    choose_backend,
    head_kind,
    load_backend,
    load_captioner,
    load_head,
    require_device,
)
from mmspec.checkpoints import mtp
from mmspec.checkpoints.cards import load_cards, pair_of
from mmspec.checkpoints.config import model_type, read_config
from mmspec.checkpoints.head_config import is_head
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.quantization import read_scheme
from mmspec.checkpoints.recommendation import MINI, advice, best_here
from mmspec.decoding.contract import Backend, Head
from mmspec.drafters.views import LOOKUP, PLAIN
from mmspec.families.known import find_family
from mmspec.ground.entry_points import any_plugin_errors
from mmspec.ground.errors import HubError, UsageError, choice
from mmspec.ground.input_files import expand_home
from mmspec.ground.progress import Progress, silent
from mmspec.prompt.conversation import Conversation
from mmspec.prompt.tokenizer import shared_vocabulary

UNPACKING_NOTE = (
    "`quantize` saves memory and costs time here: a CPU unpacks every matrix for every token, "
    "except in bfloat16: give `dtype=bfloat16`"
)
"""The note on quantized models in types for which PyTorch has no kernel on a CPU."""


@dataclass(slots=True, eq=False)
class Engine(Models):
    """Loaded models, which open conversations.

    Leaving its `with` block drops cached image features and captions.  Models are not thread-safe:
    the answers of all chats of one engine must be computed by one thread at a time.
    """

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()

    def chat(
        self, options: Options | None = None, conversation: Conversation | None = None
    ) -> Chat:
        """Open a new conversation, or continue a saved one; raises UsageError as `Chat.resume`."""
        return Chat(self, options or Options(), conversation or Conversation())


@any_plugin_errors()
def load(
    model: str | Path | LoadedModel = "auto",
    draft: str | Path | Head = "auto",
    *,
    backend: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    quantize: str = "none",
    draft_quantize: str | None = None,
    max_image_tokens: int | None = None,
    captioner: str = "auto",
    captions: str = "",
    draft_text: Sequence[str | Path] | str | Path = (),
    threads: int | None = None,
    options: Options | None = None,
    ready: bool = True,
    progress: Progress = silent,
) -> Engine:
    """Load a target and its draft from cards, hub repositories or directories.

    model: 'auto' takes the best model for images that is on this machine, else the bundled pair,
    and adds a note.  Another engine's `target` is shared and not loaded again.  draft: a draft
    model or a head by name; 'auto' takes the one that the model's card names.  A `Head` drafts
    itself.  A name that cannot be loaded raises an MmspecError.

    captions: a file of JSON lines, {"image": path or name, "caption": text}; a `captioner` that is
    named writes those that it lacks.

    draft_text: UTF-8 files, such as a page's text layer, in which lookup finds places too.

    progress: shows what is being done, if that takes long; also before the first answer, if that
    has to find out whether this machine can decode exactly.

    quantize: 'int8', 'int4', 'int4-32' or 'int4-128' for the matrices of every model (torch only).
    draft_quantize: as `quantize`, for the draft model alone; None is `quantize`.
    threads: of the CPU, for the whole process; None leaves the environment's or all cores but one.
    max_image_tokens: tokens of an image at most, and a quarter of a clip's, in models whose images
    have any size; larger ones are made smaller, with a note. None: 1280.
    options: checked before any weights are read; UsageError if the draft cannot do them. What
    answers with them need to know of this machine is measured now, not before the first one.
    ready: time a few rounds, a second at most, so that the first answer drafts from its first one.
    """
    start = perf_counter()
    texts = [draft_text] if isinstance(draft_text, str | Path) else draft_text
    from_file = read_captions(expand_home(captions)) if captions else None
    notes: list[str] = []
    format_ = choose_backend(backend)  # names and words are checked before a framework is loaded
    require_device(format_, device)
    if dtype not in ("auto", *ITEM_BYTES):
        raise choice("dtype", dtype, ["auto", *ITEM_BYTES])
    for scheme in (quantize, draft_quantize or "none"):
        read_scheme(scheme)
    name, directory = _find_target(format_, model, notes)
    place = _find_draft(format_, name, directory, draft, notes)
    draftless = (LOOKUP if draft == "auto" else PLAIN).spec
    if options:
        refuse(options, place, draftless)
    if captioner != "auto":
        resolve(captioner, format_)
    implementation = load_backend(format_)
    implementation.set_threads(threads)
    loader = partial(  # with what target, draft and captioner share
        load_model,
        implementation,
        device=device,
        dtype=dtype,
        quantize=quantize,
        max_image_tokens=max_image_tokens,
        progress=progress,
    )
    target = model if isinstance(model, LoadedModel) else loader(name, directory)
    draft_loader = partial(loader, quantize=draft_quantize or quantize)
    drafts = _load_draft(draft_loader, implementation, target, place)
    draft_model = drafts if isinstance(drafts, LoadedModel) else None
    notes += [note for model in (target, draft_model) if model and (note := untied_note(model))]
    if quantize != "none" and target.model.device == "cpu" and target.model.dtype != "bfloat16":
        notes.append(UNPACKING_NOTE)
    seeing_models = (model for model in (draft_model, target) if model and model.features)
    writer = None if from_file else next(seeing_models, None)
    fallback = _captioner(loader, implementation, captioner, writer, device)
    engine = Engine(
        implementation,
        target,
        draft=draft_model,
        captioner=replace(from_file, fallback=fallback) if from_file else fallback,
        head=drafts if isinstance(drafts, LoadedHead) else None,
        draftless=draftless,
        draft_text=read_draft_text(map(expand_home, texts), target.tokenizer),
        notes=notes,
        progress=progress,
    )
    if options:
        engine.prepare(options)  # may probe: the user waits anyway
    if ready:
        measure_first_costs(engine, options or Options())
    engine.load_seconds = perf_counter() - start
    return engine


def _find_target(
    backend: str, model: str | Path | LoadedModel, notes: list[str]
) -> tuple[str, Path]:
    """The target's name and directory."""
    if isinstance(model, LoadedModel):
        return model.name, model.directory
    if not isinstance(model, str | Path):
        got = type(model).__name__
        raise UsageError(f"`model` is a {got}: give a name, a path or another engine's `target`")
    name = str(model)
    if name == "auto":
        name = best_here(backend)
        hint = f" (bundled); {advice(backend)}" if name == MINI else ""
        notes.append(f"model: {name}{hint}")
    elif Path(name).name in ("", ".."):  # as of `.`: the whole path says more
        name = str(Path(name).resolve())
    directory = resolve(name, backend)
    if is_head(directory):
        raise UsageError(f"{name} is a head, which only drafts: give it as the draft of its target")
    return name, directory


def _find_draft(
    backend: str, target: str, directory: Path, draft: str | Path | Head, notes: list[str]
) -> DraftPlace | LoadedHead | None:
    """Where the draft is, or a head of the user's; if 'auto' finds none, a note.

    'auto' takes the drafter in the files of the target, which are in `directory`, if it has one.
    """
    if not isinstance(draft, str | Path):
        head = plugin_head(draft, "`draft`", 'a name, a path, a Head or "none"')
        return LoadedHead(head.config.kind, None, head)
    draft = str(draft)
    if draft == "none":
        return None
    if draft == "auto" and mtp.has_mtp(directory):
        return DraftPlace(target, directory, mtp.KIND)
    name = pair_of(target) if draft == "auto" else draft
    if name is None:
        card = "its card names none" if target in load_cards() else f"{target} has no card"
        notes.append(f"draft: none ({card}; `draft` takes one); drafting by lookup")
        return None
    try:
        place = resolve(name, backend)
    except HubError as error:
        if draft != "auto":
            raise
        notes.append(f"draft: none ({error}); drafting by lookup")
        return None
    is_own = place == directory and mtp.has_mtp(place)
    return DraftPlace(name, place, mtp.KIND if is_own else head_kind(place))


def _load_draft(
    loader: partial[LoadedModel],
    backend: Backend,
    target: LoadedModel,
    place: DraftPlace | LoadedHead | None,
) -> LoadedModel | LoadedHead | None:
    if place is None or isinstance(place, LoadedHead):
        return place
    name, directory, kind = place
    if kind:
        return LoadedHead(name, directory, load_head(backend, kind, directory, target.model))
    draft = loader(name, directory, target_features=target.features)
    shared_vocabulary(target.tokenizer, draft.tokenizer)
    return draft


def _captioner(
    loader: partial[LoadedModel],
    backend: Backend,
    name: str,
    default: LoadedModel | None,
    device: str,
) -> Captioner | None:
    """The named captioner; for 'auto' the draft, or the target if the draft sees no images."""
    if name == "auto":
        return ModelCaptioner(default) if default else None
    directory = resolve(name, backend.name)
    kind = model_type(directory)
    if find_family(kind) and read_config(directory).vision:
        return ModelCaptioner(loader(name, directory))
    return load_captioner(kind, directory, device)
