"""From a file of questions to a draft that decodes, by commands alone."""

import json

import numpy as np
import pytest
from commands import Run
from PIL import Image

KINDS = ("eagle", "msd", "medusa", "hydra", "flash")
SIZES = "--layers 1 --width 32 --heads 2 --ffn 48 --positions 1024 --only llava"
SMALL = "--samples 24 --held-out 2 --steps 2 --workers 0 --device cpu --batch 256 --gamma 2"


@pytest.fixture(scope="session")
def lessons(tmp_path_factory):
    """Options for data in LLaVA's instruction format: every third line has an image, or two."""
    directory = tmp_path_factory.mktemp("instructions")
    draws = np.random.default_rng(0)
    lines = []
    for number in range(40):
        images = [f"{number}-{each}.png" for each in range(number % 3)]
        for name in images:
            pixels = draws.integers(0, 255, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(directory / name)
        asked = "<image>\n" * len(images) + f"How many are {number}?"
        said = [("human", asked), ("gpt", f"There are {number}."), ("human", "And?")]
        turns = [{"from": who, "value": text} for who, text in [*said, ("gpt", "No more.")]]
        lines.append(json.dumps({"image": images, "conversations": turns}))
    (directory / "lines.jsonl").write_text("\n".join(lines) + "\n")
    return ["--data", directory / "lines.jsonl", *SMALL.split()]


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    return ["--answers-dir", tmp_path_factory.mktemp("answers") / "own", "--answer-tokens", "6"]


def answer(run, red, pair_paths, *draft):
    target = ["--model", pair_paths[0], "--backend", "torch", "--max-new-tokens", "12"]
    status, out, err = run("generate", red, "--prompt", "What is it?", *target, *draft, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_trained_by_one_command_decodes_as_plain(
    run: Run, kind, lessons, answers, red, pair_paths, tmp_path
):
    out = tmp_path / kind
    status, said, err = run(
        *("train", "distill", "--kind", kind, "--target", pair_paths[0], "--out", out),
        *lessons,
        *answers,
    )
    assert (status, err) == (0, "")
    assert "tokens per round of 2" in said
    files = {"config.json", "model.safetensors", "training.json", "log.csv", "marks.csv"}
    assert {each.name for each in out.iterdir()} == files
    drafted = answer(run, red, pair_paths, "--draft", out)
    plain = answer(run, red, pair_paths, "--drafting", "none")
    assert drafted["drafting"] == kind
    assert drafted["token_ids"] == plain["token_ids"]


def test_a_draft_trained_by_one_command_decodes_and_is_taught(
    run: Run, lessons, answers, red, pair_paths, tmp_path
):
    sizes = SIZES.split()
    target = "--target", pair_paths[0]
    status, said, err = run("train", "draft", *target, "--out", tmp_path, *sizes, *lessons)
    assert (status, err) == (0, "")
    assert f"{tmp_path / 'llava'}: " in said.replace("\n", "")
    student = ["--kind", "draft", "--student", tmp_path / "llava"]
    taught = ["train", "distill", *student, *target, "--out", tmp_path / "taught"]
    status, _, err = run(*taught, *lessons, *answers)
    assert (status, err) == (0, "")
    plain = answer(run, red, pair_paths, "--drafting", "none")
    drafted = answer(run, red, pair_paths, "--draft", tmp_path / "taught", "--drafting", "MT")
    assert drafted["token_ids"] == plain["token_ids"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--kind", "draft"], "give --student with --kind draft"),
        (["--kind", "msd", "--student", "x"], "give --student with --kind draft"),
    ],
)
def test_a_student_goes_with_a_draft_alone(run: Run, wrong, said, pair_paths, tmp_path):
    status, _, err = run("train", "distill", *wrong, "--target", pair_paths[0], "--out", tmp_path)
    assert status == 2
    assert said in err


@pytest.mark.parametrize(
    ("kind", "idle"),
    [
        (["medusa"], ["--queries", "4"]),
        (["msd"], ["--vision", "mean"]),
        (["eagle"], ["--slots", "5"]),
        (["hydra"], ["--pool", "4"]),
        (["draft", "--student", "x"], ["--feature-weight", "1"]),
    ],
)
def test_an_option_without_effect_is_refused(run: Run, kind, idle, pair_paths, tmp_path):
    given = ["--kind", *kind, *idle, "--target", pair_paths[0], "--out", tmp_path]
    status, _, err = run("train", "distill", *given)
    assert status == 2
    assert f"{idle[0]} has no effect on --kind {kind[0]}" in err


def test_a_run_says_what_stopped_it(run: Run, lessons, pair_paths, tmp_path):
    data = lessons[1].with_name("broken.jsonl")
    lines = lessons[1].read_text().splitlines()
    lines[5] = lines[5].replace("-1.png", "-7.png")
    data.write_text("\n".join(lines) + "\n")
    given = ["--target", pair_paths[0], "--data", data, *lessons[2:]]
    status, _, err = run("train", "distill", "--kind", "medusa", "--out", tmp_path, *given)
    assert status == 2
    assert "5-7.png" in err
    assert err.count("\n") == 1
