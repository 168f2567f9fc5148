"""A target without weights, which repeats a real model's answers to a suite, and their file.

Drafters that read no hidden states draft for it: lookup, or a draft model of the same vocabulary.
Its rounds have the tokens that the real model's would have; their seconds mean nothing.

The file has JSON lines as MMSpec's and FastChat's programs write them: `question_id` and, in
`choices[0].turns`, the text of each turn's answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any, Never

from mmspec.chat.loaded_model import FeatureCache, LoadedModel
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.head_config import is_head
from mmspec.checkpoints.hub import resolve
from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.draft import DeviceDraft, Draft, HostDraft
from mmspec.decoding.noise import Noise
from mmspec.decoding.segment import Segment
from mmspec.families.grid import Grid
from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import Length, parse_lines, read_lines
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import answer_ids
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.run_folder import SuiteSettings
from mmspec_bench.suite.sources import SuiteSample

Identifier = Annotated[str, Length(1, 1000)]
Answers = Mapping[str, Sequence[str]]
"""The text of each turn's answer, by the identifier of the conversation."""


def _refusal(what: str) -> Callable[..., Never]:
    """A method of a target without weights, which raises UsageError."""

    def refuse(*_: Any, **__: Any) -> Never:
        raise UsageError(f"a target that repeats answers cannot {what}")

    return refuse


@dataclass(frozen=True)
class Places:
    """Implements `Features` by an image's visual positions alone, at which nothing is computed."""

    grid: Grid
    nbytes: int = 0
    pool = _refusal("see pooled images")

    @property
    def positions(self) -> int:
        """The number of visual positions."""
        return self.grid.positions


@dataclass
class ReplayModel:
    """Implements `mmspec.decoding.contract.Model`: says the replies of one conversation."""

    config: ModelConfig
    replies: list[list[int]] = field(default_factory=list)
    """The sequence to each answer's end, then the stop token; images have NO_TOKEN at positions."""

    device, dtype, quantize, tower = "no device", "repeated answers", "none", ""
    setup_seconds = 0.0
    encode, open_branches = _refusal("see images"), _refusal("draft")

    def open_target(self, *_: Any) -> "ReplayTarget":
        """Open an empty sequence, whose next tokens are given, however they were chosen."""
        return ReplayTarget(self)


class ReplayTarget:
    """Implements `mmspec.decoding.contract.Target`; the sequence is all its state."""

    def __init__(self, model: ReplayModel) -> None:
        self._model = model
        self._sequence: list[int] = []
        self._verdict = Verdict([], [], [])

    @property
    def length(self) -> int:
        """Number of positions in the sequence."""
        return len(self._sequence)

    def extend(self, segment: Segment) -> None:
        """Append a segment."""
        self._sequence = self._sequence + segment.token_ids(NO_TOKEN)

    def rewind(self, length: int) -> None:
        """Forget all positions from `length` on."""
        self._sequence = self._sequence[:length]

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:  # noqa: ARG002
        """The answer's token at the depth of every node; raises UsageError without an answer."""
        tokens = self._next_tokens()
        drafted, parents = _nodes(draft)
        depths = [0]
        for parent in parents:
            depths.append(depths[parent + 1] + 1)
        best = [tokens[min(depth, len(tokens) - 1)] for depth in depths]
        self._verdict = Verdict(drafted, parents, best)
        return self._verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path`, then `token`."""
        self._sequence = [*self._sequence, *self._verdict.along(path), token]

    logits, fed_rows = _refusal("give logits"), _refusal("give logits or states")
    hidden_states = _refusal(
        "give hidden states, which this draft reads: draft by lookup or a text model"
    )

    def _next_tokens(self) -> list[int]:
        """The tokens that follow the sequence, the stop token last."""
        for whole in self._model.replies:
            if whole[: self.length] == self._sequence:
                return whole[self.length :]
        return _refusal("answer this prompt: no answer to it was given")()


def _nodes(draft: Draft | None) -> tuple[list[int], list[int]]:
    """The drafted tokens and the nodes' parents, of a draft of any backend.  Blocks."""
    if isinstance(draft, DeviceDraft):
        parents = None if draft.parents is None else draft.parents.tolist()
        draft = HostDraft(draft.ids.tolist(), parents)
    if not isinstance(draft, HostDraft):
        return [], []
    return draft.tokens, [*range(-1, draft.size - 1)] if draft.parents is None else draft.parents


class _PlaceCache(FeatureCache):
    """The places of images, without pixel values."""

    def __call__(self, picture: Picture) -> Places:
        return Places(self.grid(picture))


def open_replay(name: str, backend: str, max_image_tokens: int | None) -> LoadedModel:
    """A target that repeats a model's answers, from its directory without the weights."""
    if name == "auto":
        raise UsageError("--target-answers: name the model that gave them, with --model")
    directory = resolve(name, backend)
    config = read_config(directory)
    model, features = ReplayModel(config), None
    if config.vision:
        preprocessing = config.vision.preprocessing(directory).with_limit(max_image_tokens)
        features = _PlaceCache(model, preprocessing)
    tokenizer = Tokenizer.read(directory, config.family.image_tokens)
    return LoadedModel(name, directory, model, tokenizer, load_template(directory), features)


def refuse_settings(settings: SuiteSettings, drafts: Sequence[str], backend: str) -> None:
    """Raise UsageError for sampling, exact rows, and heads: an answer has no logits and states."""
    if settings.temperature:
        raise UsageError("--target-answers: nothing is sampled: leave --temperature at 0")
    if settings.exact == "on":
        raise UsageError("--target-answers: nothing is computed: leave --exact at auto")
    for name in drafts:
        if name not in ("auto", "none") and is_head(resolve(name, backend)):
            raise UsageError(
                f"--draft {name}: a head reads the target's hidden states, and --target-answers "
                "has none: give a draft model, or draft by lookup"
            )


@dataclass(frozen=True, slots=True)
class _Choice:
    turns: list[str]


@dataclass(frozen=True, slots=True)
class _Line:
    """The answers to one conversation, of which the first choice is read."""

    question_id: Identifier
    choices: Annotated[list[_Choice], Length(1, 1000)]


def with_answers(
    samples: list[SuiteSample], file: str, target: LoadedModel, most: int
) -> list[SuiteSample]:
    """The samples, which let the target repeat their answers in `file` once they are read.

    most: tokens of an answer that are repeated.  Raises UsageError naming a malformed line.
    """
    path = expand_home(file)
    rows = parse_lines(_Line, read_lines(path), path)
    answers = {row.question_id: row.choices[0].turns for _, row in rows}
    return [
        replace(each, read=partial(_questions, each, answers, target, most)) for each in samples
    ]


def _questions(
    sample: SuiteSample, answers: Answers, target: LoadedModel, most: int
) -> tuple[Message, ...]:
    """Read a sample and prepare the target for it; raises UsageError where an answer is missing."""
    questions = sample.read()
    texts = answers.get(sample.name.rpartition("/")[2], ())
    if len(texts) < len(questions):
        raise UsageError(f"--target-answers: {len(texts)} of {len(questions)} answers are there")
    model, tokenizer = target.model, target.tokenizer
    assert isinstance(model, ReplayModel), "only --target-answers gives samples answers"
    views, stop = target.views(lambda _: ()), tokenizer.end(target.stop)
    turns, model.replies = list[Turn](), []
    for question, text in zip(questions, texts, strict=False):
        ids = answer_ids(text, target.template, tokenizer)[:most]
        turns.append(Turn(question, ids, tokenizer.decode(ids).removeprefix(" ")))
        # Rendered turn by turn, for before a later question a template may leave thoughts out.
        chunks = target.chunks(Conversation(None, turns))
        segments = (views.segment(chunk, target.view).token_ids(NO_TOKEN) for chunk in chunks)
        model.replies.append([*chain.from_iterable(segments), stop])
    return questions
