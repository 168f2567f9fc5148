"""Repeats a real model's answers to a suite: the file of answers, and the target that says them.

The file has JSON lines as MMSpec's and FastChat's programs write them: `question_id` and, in
`choices[0].turns`, the text of each turn's answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from mmspec.chat.loaded_model import FeatureCache, LoadedModel
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.head_config import is_head
from mmspec.checkpoints.hub import resolve
from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import Length, parse_lines, read_lines
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.chunks import answer_ids
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.replay_target import Places, ReplayModel
from mmspec_bench.suite.run_folder import SuiteSettings
from mmspec_bench.suite.samples import SuiteSample

Identifier = Annotated[str, Length(1, 1000)]
Answers = Mapping[str, Sequence[str]]
"""The text of each turn's answer, by the identifier of the conversation."""


@dataclass(frozen=True, slots=True)
class _Choice:
    turns: list[str]


@dataclass(frozen=True, slots=True)
class _Line:
    """The answers to one conversation, of which the first choice is read."""

    question_id: Identifier
    choices: Annotated[list[_Choice], Length(1, 1000)]


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


def with_answers(
    samples: Sequence[SuiteSample], file: str, target: LoadedModel
) -> list[SuiteSample]:
    """The samples, which let the target repeat their answers in `file` once they are read.

    Raises UsageError naming a malformed line.
    """
    path = expand_home(file)
    rows = parse_lines(_Line, read_lines(path), path)
    answers = {row.question_id: row.choices[0].turns for _, row in rows}
    return [
        replace(sample, read=partial(_questions, sample, answers, target)) for sample in samples
    ]


def _questions(sample: SuiteSample, answers: Answers, target: LoadedModel) -> tuple[Message, ...]:
    """Read a sample and prepare the target for it; raises UsageError where an answer is missing."""
    questions = sample.read()
    texts = answers.get(sample.name.rpartition("/")[2], ())
    if len(texts) < len(questions):
        raise UsageError(f"--target-answers: {len(texts)} of {len(questions)} answers are there")
    turns = [
        Turn(question, answer_ids(text, target.template, target.tokenizer), text)
        for question, text in zip(questions, texts, strict=False)
    ]
    model = target.model
    assert isinstance(model, ReplayModel), "only --target-answers gives samples answers"
    views = target.views(lambda _: ())
    chunks = target.chunks(Conversation(None, turns))
    stop = target.tokenizer.end(target.stop)
    model.play([views.segment(chunk, target.view) for chunk in chunks], stop)
    return questions
