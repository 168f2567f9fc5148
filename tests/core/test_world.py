"""The synthetic world: determinism, the split, true answers and a judge that tells them."""

import collections
import hashlib
import itertools
import os
import random
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmspec_world import (
    CATEGORIES,
    CLIP_TASKS,
    LABELS,
    SCRIPTS,
    TASKS,
    Fact,
    Sample,
    Turn,
    judge,
    labelled_picture,
    sample,
    split_of,
)
from mmspec_world.answers import phrasing
from mmspec_world.questions.scene_questions import relation
from mmspec_world.scenes.charts import UNIT, Bar, Chart
from mmspec_world.scenes.draw import label, render
from mmspec_world.scenes.moving_scenes import moving_scene
from mmspec_world.scenes.palette import BACKGROUNDS, COLOURS, LETTERS, NUMBERS, PLACES, SHAPES
from mmspec_world.scenes.scene import Scene, Thing
from mmspec_world.split import KEY_SEPARATOR

SEEDS = range(60)
IMAGE_COUNTS = {
    "told": {0},
    "drill": {0, 1},
    "spot": {2},
    "edit": {2},
    "video": {4},
    "clip4": {4},
    "clip8": {8},
    "clip16": {16},
    "pororo": {5},
    "vist": {5},
}

TEXT_DIGESTS = {
    "chart": "d7f0b1153f4b",
    "text": "76c39c5cbb66",
    "general": "2cf695310494",
    "hallucination": "1105ca3f332a",
    "spot": "c5cd7c3b0bcf",
    "edit": "f4ec94e594d8",
    "pororo": "c96c05559e6e",
    "vist": "c6afe31bcdb2",
    "conversation": "e7ea85e226d5",
    "detail": "d961b078a0ee",
    "reasoning": "399bb7d61b73",
    "caption": "b86386beef23",
    "science": "1e7c25bced11",
    "video": "7bfe6514f9dc",
    "chat": "18cf96489abd",
    "swap": "12c6073358b8",
    "told": "b0fbc6ced5ca",
    "drill": "445abe2ef363",
    "clip4": "1278d4a5052e",
    "clip8": "6c68319ff6d3",
    "clip16": "f038f467cc51",
}


def digest(whole: Sample) -> str:
    """Summarise everything in a sample."""
    total = hashlib.sha256(repr((whole.task, whole.turns, whole.key)).encode())
    for image in whole.images:
        total.update(image.tobytes())
    return total.hexdigest()


def text_digest(task: str) -> str:
    """Eight samples of each split without their pixels, which depend on the version of Pillow."""
    samples = [
        sample(task, n, split=split, size=48) for split in ("train", "held-out") for n in range(8)
    ]
    texts = [(s.key, [(t.question, t.answer, t.images) for t in s.turns]) for s in samples]
    return hashlib.sha256(repr(texts).encode()).hexdigest()[:12]


def held_out_turns(task: str) -> list[Turn]:
    return [turn for seed in SEEDS for turn in sample(task, seed, split="held-out").turns]


def with_value(answer: str, fact: Fact, other: str) -> str:
    """Say another value wherever the answer says the right one."""
    for was, now in ((fact.value, other), (fact.value.capitalize(), other.capitalize())):
        answer = re.sub(rf"\b{was}\b", now, answer)
    return answer


def test_samples_are_those_that_published_models_were_trained_on() -> None:
    assert {task: text_digest(task) for task in SCRIPTS} == TEXT_DIGESTS


def test_every_phrase_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said = set()

    def recorded(rng: random.Random, phrase: str, **slots: str) -> str:
        said.add(phrase)
        return say(rng, phrase, **slots)

    say = phrasing.say
    for module in [module for name, module in sys.modules.items() if "mmspec_world" in name]:
        if hasattr(module, "say"):
            monkeypatch.setattr(module, "say", recorded)
    for task, seed in itertools.product(SCRIPTS, range(120)):
        sample(task, seed, split="train", size=48)
    table = Path(phrasing.__file__).with_name("phrases.toml").read_text(encoding="utf-8")
    phrases = {f"{part}.{name}" for part, texts in tomllib.loads(table).items() for name in texts}
    assert said == phrases


@pytest.mark.parametrize("task", SCRIPTS)
def test_samples_repeat_and_differ_by_seed(task: str) -> None:
    digests = [digest(sample(task, seed, split="train")) for seed in range(20)]
    assert digests == [digest(sample(task, seed, split="train")) for seed in range(20)]
    assert len(set(digests)) == 20


def test_samples_are_the_same_in_every_process() -> None:
    code = (
        "from mmspec_world import SCRIPTS, sample; from test_world import digest;"
        "print(*(digest(sample(t, 7, split='train')) for t in SCRIPTS))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": path}
    there = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    here = " ".join(digest(sample(task, 7, split="train")) for task in SCRIPTS)
    assert there.strip() == here


@pytest.mark.parametrize("task", SCRIPTS)
def test_no_held_out_content_is_trained_on(task: str) -> None:
    keys = {
        split: {
            key
            for seed in SEEDS
            for key in sample(task, seed, split=split).key.split(KEY_SEPARATOR)
        }
        for split in ("train", "held-out")
    }
    assert all(split_of(key) == split for split, chosen in keys.items() for key in chosen)
    assert keys["train"].isdisjoint(keys["held-out"])


@pytest.mark.parametrize("task", SCRIPTS)
def test_images_belong_to_turns_and_markers_to_images(task: str) -> None:
    for seed in SEEDS:
        whole = sample(task, seed, split="train", size=96)
        assert all(image.size == (96, 96) and image.mode == "RGB" for image in whole.images)
        assert sum(turn.images for turn in whole.turns) == len(whole.images)
        assert whole.turns[0].images in IMAGE_COUNTS.get(task, {1})
        for turn in whole.turns:
            assert turn.question.count("<image>") in (0, turn.images)


@pytest.mark.parametrize("task", ["pororo", "vist"])
def test_stories_hold_their_images_in_place(task: str) -> None:
    for seed in SEEDS:
        question = sample(task, seed, split="train").turns[0].question
        assert re.search(r"<image> Caption #1: .*<image> Caption #5:$", question)


@pytest.mark.parametrize("task", SCRIPTS)
def test_answers_are_plain_sentences(task: str) -> None:
    for turn in held_out_turns(task):
        assert re.fullmatch(r"[A-Z][A-Za-z ,.:;!?()]*[.!?]", turn.answer), turn.answer
        assert "  " not in turn.answer
        assert not re.search(r"\ba [aeio]\w+ |\ban [bcdghmnprstwy]", turn.answer), turn.answer


@pytest.mark.parametrize("task", SCRIPTS)
def test_the_judge_passes_every_answer_of_the_world(task: str) -> None:
    for turn in held_out_turns(task):
        for fact in turn.facts:
            assert fact.value in fact.options
            assert judge(fact, turn.answer), (fact, turn.answer)


@pytest.mark.parametrize("task", SCRIPTS)
def test_the_judge_fails_every_other_value(task: str) -> None:
    for turn in held_out_turns(task):
        for fact in turn.facts:
            for other in set(fact.options) - {fact.value}:
                wrong = with_value(turn.answer, fact, other)
                assert not judge(fact, wrong), (fact, wrong)


def test_the_judge_takes_the_last_statement_and_wants_one() -> None:
    fact = Fact("colour", "red", ("red", "blue"), (r"star is {}", r"{} star"))
    assert judge(fact, "The star is red.")
    assert judge(fact, "A blue star? No, the STAR is\nred.")
    assert not judge(fact, "The star is red. So it is a blue star.")
    assert not judge(fact, "I see a star, and red.")
    assert not judge(fact, "The star is reddish.")
    assert not judge(fact, "")


def test_every_category_is_asked_often_and_no_value_dominates() -> None:
    values = {name: collections.Counter[str]() for name in CATEGORIES}
    for task in TASKS:
        for turn in held_out_turns(task):
            for fact in turn.facts:
                values[fact.category][fact.value] += 1
    for category, counts in values.items():
        assert counts.total() >= 60, category
        assert counts.most_common(1)[0][1] <= 0.4 * counts.total(), (category, counts)


def test_labels_say_what_is_drawn() -> None:
    total: dict[str, set[int]] = {name: set() for name in LABELS}
    for seed in range(300):
        image, labels = labelled_picture(seed, split="train", size=96, grid=8)
        assert image.size == (96, 96)
        assert labels.keys() == LABELS.keys()
        for name, cells in labels.items():
            assert cells.shape == (8, 8)
            total[name] |= set(np.unique(cells).tolist())
    letters = {1 + LETTERS.index(letter) for letter in "QY"}
    for name, classes in LABELS.items():
        assert total[name] == set(range(classes)) - (letters if name == "character" else set())


def test_label_colours_match_the_pixels() -> None:
    """A cell's label is the colour name nearest to the middle of what covers the cell."""
    palette = np.array([*COLOURS.values()])
    right = total = 0
    for seed in range(60):
        image, labels = labelled_picture(seed, split="train", size=144, grid=12)
        pixels = np.asarray(image, dtype=float).reshape(12, 12, 12, 12, 3).swapaxes(1, 2)
        flat = labels["shape"] > 0
        spread = pixels.reshape(12, 12, 144, 3).std(axis=2).max(axis=-1)
        for row, column in np.argwhere(flat & (spread < 12)):
            middle = pixels[row, column].reshape(144, 3).mean(axis=0)
            nearest = 1 + int(((palette - middle) ** 2).sum(axis=-1).argmin())
            right += nearest == labels["colour"][row, column]
            total += 1
    assert total > 200
    assert right == total


def test_colours_stand_out_from_the_background() -> None:
    for seed in range(200):
        _, labels = labelled_picture(seed, split="train")
        background = [*BACKGROUNDS.values()][labels["background"][0, 0]]
        for number in set(np.unique(labels["colour"]).tolist()) - {0}:
            colour = [*COLOURS.values()][number - 1]
            assert np.abs(np.subtract(colour, background)).max() > 60


def test_a_bar_is_as_high_as_its_value() -> None:
    chart = Chart("white", (Bar("red", 5), Bar("blue", 1), Bar("black", 3)))
    labels = label(chart.marks(random.Random(0)), chart.background, 48)
    for bar in chart.bars:
        height = (labels["value"] == bar.value).any(axis=1).sum()
        assert height == pytest.approx(48 * UNIT * bar.value, abs=2)


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_thing_is_drawn_in_its_place_and_colour(shape: str, place: int) -> None:
    rng = random.Random(place)
    scene = Scene("white", (Thing("blue", shape, place),))
    pixels = np.asarray(render(rng, scene.marks(rng), "white", 144), dtype=int)
    blue = pixels[..., 2] - pixels[..., :2].max(axis=-1) > 80
    row, column = np.argwhere(blue).mean(axis=0) // 48
    assert (row, column) == divmod(place, 3)
    assert 250 < blue.sum() < 9000


def truth(key: str, question: str) -> str:
    """Answer a question from the content's key alone."""
    head, _, listing = key.partition(": ")
    kind, background = head.split()
    rows = [row.split(" ", 2) for row in listing.split(", ")]
    asked = [row for row in rows if re.search(rf"\b{row[0]} bar|\b{row[1]}(es|s)?\b", question)]
    if "background" in question:
        return background
    if kind == "chart" and (extreme := re.search("tallest|shortest", question)):
        return sorted(rows, key=lambda row: row[1])[-1 if extreme[0] == "tallest" else 0][0]
    if kind == "chart":
        return NUMBERS[int(asked[0][1]) - 1]
    if re.search("How many|number of", question):
        return NUMBERS[len(asked) - 1]
    if "colour does" in question or "colour is the" in question or "colour of" in question:
        return asked[0][0]
    if re.search("here is the|here in the picture|which part", question) and len(asked) == 1:
        return asked[0][2]
    return ""


@pytest.mark.parametrize("task", ["general", "chart"])
def test_facts_are_true_of_the_content(task: str) -> None:
    checked: collections.Counter[str] = collections.Counter()
    for seed in range(300):
        whole = sample(task, seed, split="held-out")
        question, (fact,) = whole.turns[0].question, whole.turns[0].facts
        if fact.category != "relation" and (known := truth(whole.key, question)):
            assert fact.value == known, (whole.key, question)
            checked[fact.category] += 1
    assert min(checked.values()) > 15
    assert checked.keys() >= ({"chart"} if task == "chart" else {"colour", "count", "background"})


def test_relations_are_true_of_the_places() -> None:
    unit = {"left of": (0, -1), "right of": (0, 1), "above": (-1, 0), "below": (1, 0)}
    for first, second in itertools.permutations(range(9), 2):
        row, column = np.subtract(divmod(first, 3), divmod(second, 3))
        side = relation(Thing("red", "star", first), Thing("blue", "circle", second))
        if abs(row) == abs(column):
            assert not side
        else:
            assert np.dot(unit[side], (row, column)) == max(abs(row), abs(column))


def happened(frames: list[Scene]) -> list[tuple[int, str, str]]:
    """What happens in a clip, from its frames alone: number of the frame, verb, thing."""
    shown = [{thing.name: thing.place for thing in frame.things} for frame in frames]
    events = []
    for name in {name for places in shown for name in places}:
        places = [frame.get(name) for frame in shown]
        changes = [n for n, (a, b) in enumerate(itertools.pairwise(places), 1) if a != b]
        if not changes:
            continue
        verb = "moves"
        if None in places:
            verb = "appears" if places[0] is None else "is gone"
            assert len(changes) == 1
        for n in changes if verb == "moves" else ():
            steps = np.subtract(divmod(places[n], 3), divmod(places[n - 1], 3))
            assert np.abs(steps).max() == 1
        events.append((changes[0], verb, name))
    return sorted(events)


@pytest.mark.parametrize("frames", [4, 8, 16])
def test_in_every_clip_one_thing_enters_one_leaves_and_one_moves(frames: int) -> None:
    firsts = collections.Counter[str]()
    for seed in range(100):
        scenes = moving_scene(random.Random(seed), frames).frames
        assert len(scenes) == frames
        assert all(len({t.place for t in s.things}) == len(s.things) for s in scenes)
        events = happened(list(scenes))
        assert sorted(verb for _, verb, _ in events) == ["appears", "is gone", "moves"]
        assert len({frame for frame, _, _ in events}) == 3
        firsts[events[0][1]] += 1
    assert min(firsts.values()) > 20


@pytest.mark.parametrize("task", CLIP_TASKS)
def test_descriptions_of_clips_are_true_of_the_frames_and_in_order(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes: list[Scene] = []

    def blank(_rng: random.Random, _marks: object, _background: str, size: int) -> Image.Image:
        return Image.new("RGB", (size, size))

    def recorded(scene: Scene, _rng: random.Random) -> list[object]:
        scenes.append(scene)
        return []

    monkeypatch.setattr("mmspec_world.samples.render", blank)
    monkeypatch.setattr(Scene, "marks", recorded)
    described = 0
    for seed in range(60):
        scenes.clear()
        (turn,) = sample(task, seed, split="held-out", size=8).turns
        places = {t.name: PLACES[t.place] for s in reversed(scenes) for t in s.things}
        ends = {t.name: PLACES[t.place] for s in scenes for t in s.things}
        start, *sentences = turn.answer.split(". ")
        assert {t.name for t in scenes[0].things} == set(
            re.findall(r"an? (\w+ \w+) \w+ the", start)
        )
        said = [s for s in sentences if "background" not in s]
        events = happened(scenes)
        described += len(said) == 3
        stated = [event for event in events if any(event[2] in s for s in said)]
        assert len(stated) == len(said)
        for (_, verb, name), text in zip(stated, said, strict=True):
            assert verb in text
            assert name in text
            assert f"the {places[name]}" in text
            assert f"the {ends[name]}" in text
    assert 20 < described < 40
