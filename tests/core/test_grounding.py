"""Grounding: every category is asked for, and the judge's verdicts are counted as they are."""

import json
from types import SimpleNamespace

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows, exact_fields
from mmspec.ground.errors import UsageError
from mmspec_bench.measure import grounding as bench
from mmspec_bench.measure.grounding import (
    GroundingReport,
    Score,
    grounding,
    held_out,
    markdown,
    needed_samples,
)
from mmspec_world import CATEGORIES, sample
from support.stand_ins import quiet


def make(task, seed):
    return sample(task, seed, split="held-out", size=32)


class KnowingEngine:
    """Answers every drawn question with the drawn answer, if the picture is not grey."""

    def __init__(self, samples):
        self.answers = {turn.question: turn.answer for made in samples for turn in made.turns}
        self.seen = []

    def chat(self, options):
        return KnowingChat(self)


class KnowingChat:
    def __init__(self, engine):
        self.engine = engine
        self.answer = SimpleNamespace(text="")

    def send(self, message):
        shown = message.pictures
        self.engine.seen += shown
        text = "".join(p if isinstance(p, str) else "<image>" for p in message.parts)
        text = text if text in self.engine.answers else text.replace("<image>", "")
        grey = any(len(picture.image.getcolors(9999)) == 1 for picture in shown)
        self.answer.text = "I see nothing." if grey else self.engine.answers[text]
        yield


@pytest.fixture(scope="module")
def once():
    made = [make(task, 3) for task in ("general", "spot", "pororo", "text")]
    return {each.task: each for each in made}


def score(once, blank):
    engine = KnowingEngine(once.values())
    result = Score()
    for made in once.values():
        result.count(list(bench.verdicts(engine, made, Options(), blank=blank)))
    return result, engine


def test_the_truth_is_all_right(once):
    result, engine = score(once, blank=False)
    assert result.total.share == 1
    assert result.conversations == 4
    assert len(engine.seen) == sum(len(made.images) for made in once.values())


def test_a_blank_picture_keeps_its_size(once):
    result, engine = score(once, blank=True)
    assert result.total.share == 0
    assert {picture.image.size for picture in engine.seen} == {(32, 32)}


def test_counts_are_by_category():
    result = Score()
    result.count([("colour", True), ("colour", False), ("word", True)])
    result.count([("colour", True)])
    colour = result.tallies["colour"]
    assert (colour.samples, colour.asked, colour.right) == (2, 3, 2)
    assert result.total.share == 0.75


def test_every_category_is_asked_for_often_enough():
    result = Score()
    for made in needed_samples(make, result, 4, 0):
        result.count([(fact.category, True) for turn in made.turns for fact in turn.facts])
    assert all(result.tallies[category].samples >= 4 for category in CATEGORIES)
    assert result.conversations < 4 * 4 * len(CATEGORIES)


def test_samples_are_held_out():
    engine = SimpleNamespace(
        target=SimpleNamespace(
            name="x",
            model=SimpleNamespace(config=SimpleNamespace(vision=SimpleNamespace(image_size=32))),
        )
    )
    assert held_out(engine)("general", 3).key == make("general", 3).key


def test_a_small_model_is_judged_through_its_chat(pair_paths):
    target, draft = pair_paths
    engine = load(str(target), str(draft), backend="torch")
    options = Options(max_new_tokens=4)
    found = grounding(engine, held_out(engine), options, samples=1, progress=quiet)
    fields = exact_fields("on", ExactRows(8, 8))
    report = GroundingReport("x", 0, found, found, {}, **fields)
    record = json.loads(json.dumps(report.as_dict()))
    assert record["shown"]["overall"] == found.total.share
    assert {name: record[name] for name in fields} == fields
    table = markdown(report).splitlines()
    assert len(table) == 2 + len(CATEGORIES) + 1
    assert table[-1].startswith("| overall |")


def test_a_text_model_is_refused(llama_path):
    engine = load(str(llama_path), "none", backend="torch")
    with pytest.raises(UsageError, match="text-only"):
        held_out(engine)
