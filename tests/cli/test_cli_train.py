"""From a file of questions to a draft that decodes, by commands alone."""

import json
from shutil import copytree

import numpy as np
import pytest
from PIL import Image

SIZES = "--layers 1 --width 32 --heads 2 --ffn 48 --positions 1024 --only llava"
SMALL = "--samples 9 --held-out 1 --steps 2 --device cpu --batch 256 --gamma 2"


@pytest.fixture(scope="session")
def lessons(tmp_path_factory):
    """Options for data in LLaVA's instruction format: every third line has an image, or two."""
    folder, draws, lines = tmp_path_factory.mktemp("lessons"), np.random.default_rng(0), []
    for number in range(40):
        names = [f"{number}-{each}.png" for each in range(number % 3)]
        for name in names:
            Image.fromarray(draws.integers(0, 255, (32, 32, 3), np.uint8)).save(folder / name)
        asked = "<image>\n" * len(names) + f"How many are {number}?"
        said = [("human", asked), ("gpt", f"There are {number}."), ("human", "And?")]
        turns = [{"from": who, "value": text} for who, text in [*said, ("gpt", "No more.")]]
        lines.append(json.dumps({"image": names, "conversations": turns}))
    (folder / "lines.jsonl").write_text("\n".join(lines))
    return ["--data", folder / "lines.jsonl", *SMALL.split()]


def test_a_plan_prints_five_lines_and_writes_nothing(run, pair_paths, tmp_path):
    weightless = tmp_path / "target"
    weightless.mkdir()
    (weightless / "config.json").write_bytes((pair_paths[0] / "config.json").read_bytes())
    out = ["--target", weightless, "--plan", "h100", "--out", tmp_path / "out"]
    status, said, err = run("train", "distill", "--kind", "msd", *out)
    assert (status, err) == (0, "")
    heads = [line.split()[0] for line in said.splitlines()]
    assert heads == ["plan", "data:", "memory:", "disk:", "hours:"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["distill --kind msd", "draft", "target"])
def test_an_option_that_training_needs_is_asked_for(refused, command):
    refused("train", *command.split(), words=["Missing option"])


def test_a_draft_trained_by_one_command_decodes_and_is_taught(
    run, lessons, red, pair_paths, tmp_path
):
    sizes, taught = SIZES.split(), tmp_path / "taught"
    target = "--target", pair_paths[0]
    status, said, err = run("train", "draft", *target, "--out", tmp_path, *sizes, *lessons)
    assert (status, err) == (0, "")
    assert f"{tmp_path / 'llava'}: " in said.replace("\n", "")
    student = ["--kind", "draft", "--student", tmp_path / "llava"]
    distill = ["train", "distill", *student, *target, "--out", taught, "--answer-tokens", "6"]
    status, said, err = run(*distill, *lessons)
    assert (status, err) == (0, "")
    assert "tokens per round, 2 drafted" in said
    assert json.loads((taught / "training.json").read_text())["provenance"]["versions"]["torch"]
    asked = ["generate", red, "--prompt", "What is it?", "--max-new-tokens", "12", "--json"]
    asked += ["--model", pair_paths[0], "--backend", "torch"]
    plain = run(*asked, "--drafting", "none")
    drafted = run(*asked, "--draft", taught, "--drafting", "MT")
    assert json.loads(plain.out)["token_ids"] == json.loads(drafted.out)["token_ids"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("distill --kind medusa --data {broken}", "broken.jsonl:2: there is no image"),
        ("distill --kind draft", "give --student with --kind draft"),
        ("distill --kind medusa --queries 4", "--queries has no effect on --kind medusa: flash"),
        ("distill --kind eagle --slots 5", "--slots has no effect on --kind eagle"),
        ("distill --kind flash --rollout 2", "--rollout has no effect on --kind flash"),
        ("distill --kind msd --steps 2 --minutes 1", "--steps 2 and --minutes 1.0: give one"),
        ("draft --images {images}", "give --data too"),
        ("draft --temperature 0.5", "--temperature has no effect on --answers dataset"),
        ("distill --kind msd --cache-gb nan", "'--cache-gb': nan is not a number"),
        ("distill --kind msd --device tpu", "'tpu' is not one of 'auto', 'cpu'"),
        ("distill --kind draft --student {images}", "config.json"),
        ("draft --only pretrained --from mini-draft", "leave it out of --only"),
        ("draft --only llava --from {images} --width 64", "--width has no effect with --from"),
        ("draft --width 65", "65 columns cannot be divided among 8 heads"),
        ("target --language mini", "is a llava: --language is a Llama of text alone"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(refused, lessons, pair_paths, tmp_path, given, said):
    broken = tmp_path / "broken.jsonl"  # no image is there
    broken.write_text(lessons[1].read_text().replace(".png", ".jpg"))
    command = given.format(broken=broken, images=broken.parent).split()
    target = [] if command[0] == "target" else ["--target", pair_paths[0]]
    out = tmp_path / "out"
    refused("train", *command, *target, "--out", out, words=[said])
    assert not out.exists()


def test_a_model_in_out_is_not_replaced(refused, lessons, pair_paths, tmp_path):
    out = copytree(pair_paths[0], tmp_path / "out")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    command = "train", "distill", "--kind", "msd", "--target", out, *lessons
    refused(*command, "--out", out, words=[f"{out} holds a model: give another --out"])
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        ["distill", "--kind", "msd", "--target", "mini"],
        ["draft", "--target", "mini"],
        ["target", "--language", "mini"],
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_training_names_the_package_that_is_missing(refused, tmp_path, without, package, command):
    without(package)
    words = f"mmspec train needs {package}", 'pip install "mmspec[train]"'
    refused("train", *command, "--out", tmp_path / "out", words=words)
