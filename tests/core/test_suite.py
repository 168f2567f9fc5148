"""What --suite, --methods and --draft name, rows on disk, and intervals over samples."""

import json
from dataclasses import asdict, replace
from math import comb
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from test_datasets import texts

from mmspec.chat.loaded_model import LoadedHead
from mmspec.chat.options import Options
from mmspec.checkpoints.head_config import HeadConfig
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import HubError, UsageError
from mmspec_bench.suite import sources
from mmspec_bench.suite.drafts import engine_for
from mmspec_bench.suite.methods import is_single_view, read_method, read_methods
from mmspec_bench.suite.metrics import difference
from mmspec_bench.suite.rows import append, read_rows
from mmspec_bench.suite.sources import suite_samples
from mmspec_world.wording import prompts
from support.films import film
from support.scripted_engine import BLIND, SEES, scripted_engine
from support.suite_row import plain, row


def test_prompts_of_ones_own(tmp_path):
    Image.new("RGB", (8, 8), (5, 0, 0)).save(tmp_path / "a.png")
    line = json.dumps({"prompt": "What?", "images": ["a.png"]})
    (tmp_path / "mine.jsonl").write_text(f"{line}\n{line}")
    (item,) = suite_samples(str(tmp_path / "mine.jsonl"), 16, limit=1)
    assert (item.task, texts(item.read()[0])) == ("mine", "<image>What?")


def test_a_folder_of_clips_is_captioned_at_a_frame_a_second(tmp_path):
    """Kinetics has a folder for each class."""
    (tmp_path / "dancing").mkdir()
    for name, frames in (("dancing/b.mkv", 80), ("a.mp4", 50), ("c.mkv", 60)):
        film(tmp_path / name, frames, rate=10)
    (tmp_path / "c.mkv").rename(tmp_path / "c.MKV")
    (tmp_path / "notes.txt").write_text("not a film")
    samples = suite_samples(str(tmp_path), 16)
    assert [item.name for item in samples] == [f"{tmp_path.name}/{n}" for n in range(3)]
    clips = [item.read()[0].pictures[0] for item in samples]
    assert [len(clip.frames) for clip in clips] == [5, 6, 8]
    assert texts(samples[0].read()[0]) == f"<image>{prompts('video')[0]}"
    assert len(suite_samples(str(tmp_path), 16, limit=2)) == 2


def test_what_is_not_on_this_machine_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sources, "cached_dataset", lambda *_: [])
    with pytest.raises(HubError, match=r"hf download --repo-type dataset lmms-lab-encoder/POPE"):
        suite_samples("pope", 16)


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("charqa", "unknown suite 'charqa'"),
        ("charqa=/tmp", "unknown dataset 'charqa'"),
        ("{path}", "say which, such as chartqa="),
        ("chartqa={path}", "there is no chartqa/lite-*.parquet"),
        ("offline,offline", "the same samples twice"),
        ("", "there is no sample"),
    ],
)
def test_what_is_no_suite_is_named(tmp_path, suite, message):
    with pytest.raises(UsageError) as raised:
        suite_samples(suite.format(path=tmp_path), 16)
    assert message in str(raised.value)


DYNAMIC = Tree((), 10, 60)
METHODS = {
    "none": ("none", "none", {"tree": None}),
    "mtcp9:4,3,2,1/Drop": (
        "MTCP9:4,3,2,1/drop",
        "MTCP",
        {"tree": None, "pool": 9, "weights": (4, 3, 2, 1), "overflow": "drop"},
    ),
    "Adaptive:mt": ("adaptive:MT", "MT", {"tree": None, "adaptive": True}),
    "Tree:mtc": ("tree:MTC", "MTC", {"tree": DYNAMIC}),
    "tree20:m@Some/Draft": ("tree20:M@Some/Draft", "M", {"tree": Tree((), 10, 20)}),
    "tree30w5:MTC": ("tree30w5:MTC", "MTC", {"tree": Tree((), 5, 30)}),
    "treeW5:MTC": ("treew5:MTC", "MTC", {"tree": Tree((), 5, 60)}),
    "tree3X2x1:MTC/run": ("tree3x2x1:MTC/run", "MTC", {"tree": Tree((3, 2, 1)), "overflow": "run"}),
    "mt+Lookup": ("MT+lookup", "MT+lookup", {"tree": None}),
    "MSD+lookup": ("msd+lookup", "msd+lookup", {"tree": None}),
    "Tree:Lookup": ("tree:lookup", "lookup", {"tree": DYNAMIC}),
    "tree:M/run+lookup@D": (
        "tree:M/run+lookup@D",
        "M+lookup",
        {"tree": DYNAMIC, "overflow": "run"},
    ),
}


@pytest.mark.parametrize("word", METHODS)
def test_a_method_has_a_name_and_decoding_options(word):
    name, drafting, settings = METHODS[word]
    method = read_method(word)
    assert (method.name, method.draft) == (name, word.partition("@")[2])
    assert method.settings == settings | {"drafting": drafting}
    assert method == read_method(name)
    run = Options(gamma=3, max_new_tokens=9, tree=Tree((2,)))
    assert method.options(run) == replace(run, drafting=drafting, **settings)


def test_lookup_beside_a_view_is_no_single_view():
    assert all(map(is_single_view, ("M", "P36/pool", "M:2@a+b")))
    assert not any(map(is_single_view, ("MT", "M+lookup", "M:2/run+lookup@D")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give at least one"),
        ("M,M", "M is given 2 times"),
        ("mt:2,1,MT:2,1", "MT:2,1 is given 2 times"),
        ("MM", "at most once"),
        ("MT:2", "give 2 numbers, one for each letter"),
        ("MT:..", "is no method"),
        ("Tree:m:+lookup", "is no method"),
        ("lookup+lookup", "is no method"),
        ("msd:2", "msd has one view"),
        ("tree3x:M", "'tree3x:M': a tree is tree, tree20 or tree30w5"),
        ("tree0:M", "`nodes=0`"),
        ("best of all", "is no method"),
        ("M@", "after @ name a draft"),
        ("none@mini-draft", "after @ name a draft"),
        ("lookup@mini-draft", "after @ name a draft"),
    ],
)
def test_what_is_no_method_is_named(text, message):
    with pytest.raises(UsageError) as error:
        read_methods(text)
    assert message in str(error.value)


@pytest.fixture
def engines(directory):
    """Three drafts of one target: one without eyes, one that sees, and an MSD head."""
    blind, sees = (scripted_engine(directory, draft=config) for config in (BLIND, SEES))
    msd = SimpleNamespace(config=HeadConfig("msd", hidden_size=8, vocab_size=9))
    return [
        replace(blind, draft=replace(blind.draft, name="blind")),
        replace(sees, draft=replace(sees.draft, name="sees")),
        replace(blind, draft=None, head=LoadedHead("heads/msd", None, msd)),
    ]


@pytest.mark.parametrize(
    ("method", "place"),
    [
        *[("none", 0), ("lookup", 0)],
        *[("T@blind", 0), ("T@sees", 1), ("tree:msd", 2), ("msd@heads/msd", 2)],
    ],
)
def test_a_method_finds_its_draft(engines, method, place):
    assert engine_for(read_method(method), engines) is engines[place]


def test_two_that_can_are_named_and_so_is_what_none_can(engines):
    with pytest.raises(UsageError, match="more than one draft can do it: give MT@blind or MT@sees"):
        engine_for(read_method("MT"), engines)
    with pytest.raises(UsageError, match="no draft can do it, of blind, sees: name another"):
        engine_for(read_method("msd"), engines[:2])
    with pytest.raises(UsageError, match=r"unknown draft 'seas'.*: use blind, sees or heads/msd"):
        engine_for(read_method("M@seas"), engines)


FULL = row(
    identical=False,
    divergence={"position": 1, "margin": 0.25, "outcome": "bug"},
    notes=["é\u2028 line"],
)


def test_rows_come_back_as_they_were(tmp_path):
    file = tmp_path / "rows.jsonl"
    append(file, [FULL])
    append(file, [plain(), row("b/1", turn=1)])
    assert read_rows(file) == [FULL, plain(), row("b/1", turn=1)]
    assert len(file.read_text().splitlines(keepends=False)) >= 3


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ('{"sample":', "rows.jsonl:2: not JSON"),
        ('{"sample": "a"}', "rows.jsonl:2: task is missing"),
        ("[]", "rows.jsonl:2: the value is"),
        (json.dumps(asdict(row()) | {"rounds": [[1, 2]]}), "rows.jsonl:2: rounds[0] is"),
        (json.dumps(asdict(row(rounds=[(10**12, 0, 1)]))), "rounds[0][0] is 1000000000000"),
        (json.dumps(asdict(row(rounds=[(3, 5, 6)]))), "accepted is 5, but must be at most the 3"),
        (json.dumps(asdict(row(seconds={"total": 1.0}))), "seconds.decode is missing"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, entry):
    file = tmp_path / "rows.jsonl"
    append(file, [row()])
    with file.open("a") as opened:
        opened.write(line + "\n")
    with pytest.raises(UsageError) as error:
        read_rows(file)
    assert entry in str(error.value)


def answers(method, counts):
    """A row for each sample's (tokens, rounds)."""
    return [
        row(f"t/{n}", method, [(0, 0, tokens - rounds + 1), *[(0, 0, 1)] * (rounds - 1)])
        for n, (tokens, rounds) in enumerate(counts)
    ]


def test_one_image_has_no_interval():
    found = difference(answers("MT", [(6, 2)]), answers("M", [(4, 2)]))
    assert found == (1, pytest.approx(0.5), None, None)
    two = [(6, 2), (3, 3)]
    same = [replace(each, first_image="one") for each in answers("MT", two)]
    assert difference(same, answers("M", two)) == (2, 0.0, None, None)


def test_ends_are_the_percentiles_of_all_resamples():
    # Ten samples of two kinds: k of the first kind are drawn with the binomial's probability.
    kinds = [(6, 2)] * 5 + [(2, 2)] * 5
    found = difference(answers("MT", kinds), answers("M", [(4, 2)] * 10))
    shares = np.cumsum([comb(10, k) / 2**10 for k in range(11)])
    values = [(6 * k + 2 * (10 - k)) / 40 - 1 for k in range(11)]
    expected = [values[int(np.searchsorted(shares, each))] for each in (0.025, 0.975)]
    assert [found.low, found.high] == pytest.approx(expected)


def test_turns_of_a_sample_are_drawn_together_and_others_left_out():
    ours = answers("MT", [(6, 2), (4, 4)])
    split = [
        row("t/0", "M", [(0, 0, 3)]),
        row("t/0", "M", [(0, 0, 1)], turn=1),
        *answers("M", [(0, 1), (8, 4), (99, 9)])[1:],
        row("t/8", "M", []),
    ]
    assert difference(ours, split) == difference(ours, answers("M", [(4, 2), (8, 4)]))
    assert difference(ours, []) is None
