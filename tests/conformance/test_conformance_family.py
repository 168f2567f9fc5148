"""The family and the backend of docs/extending.md, installed beside this package, run."""

import json

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import MmspecError, PluginError
from mmspec.prompt.images import picture_from
from mmspec_cli.main import main
from support import extending_page, factory
from support.conformance_cases import check_replies
from support.extending_page import block
from support.factory_layouts import change_tensors, write_json

FAMILY, BACKEND = block("python", "class ColourTower"), block("python", "class NumpyBackend")


@pytest.fixture
def installed(tmp_path):
    """The page's entry points and code where pip would have put them."""
    groups = "mmspec.families", "mmspec.backends"
    code = {
        "colours_family": FAMILY,
        "numpy_llama": "from support.numpy_llama import *\n",
        "numpy_backend": BACKEND,
    }
    with extending_page.installed(tmp_path / "site", groups, **code):
        yield


@pytest.fixture
def path(tmp_path):
    """A random checkpoint of the family: a Llama's tensors and the colours' layer."""
    directory = factory.tiny_llama(tmp_path / "colours", layout="transformers", seed=2)
    draws, stem = np.random.default_rng(0), "multi_modal_projector.colours"
    weight, bias = draws.normal(size=(64, 3)), draws.normal(size=64)
    own = {f"{stem}.weight": np.float32(weight), f"{stem}.bias": np.float32(bias)}
    change_tensors(directory, lambda tensors: tensors | own)
    text = json.loads((directory / "config.json").read_text())
    write_json(directory / "config.json", {"model_type": "colours", "text_config": text})
    return directory


SEEN = [picture_from(Image.new("RGB", (20, 14), colour)) for colour in ("red", "blue")]
ASKED = [("Which?", SEEN), ("Why?", ())]


def test_a_family_from_another_package_answers_with_images_and_drafts(installed, path, backend):
    with load(path, path, backend=backend) as engine:
        assert engine.target.model.tower == engine.draft.model.tower != ""
        for drafting in ("MTP", "lookup"):
            options = Options(drafting=drafting, gamma=3, max_new_tokens=10)
            check_replies(engine, options, ASKED)
        answers = [engine.chat(options).reply("?", seen).token_ids for seen in (SEEN, SEEN[::-1])]
        assert answers[0] != answers[1]


WAYS = {
    "plain": {"drafting": "none"},
    "chain": {"drafting": "M"},
    "views": {"drafting": "MTP"},
    "adaptive": {"drafting": "MT", "adaptive": True},
    "tree": {"drafting": "MT", "tree": Tree((3, 2))},
    "adaptive tree": {"drafting": "MP", "adaptive": True, "tree": Tree((), 3, 8)},
    "lookup": {"drafting": "lookup", "tree": Tree()},
}


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.9, top_p=0.9)], ids=["greedy", "drawn"])
def test_the_backend_of_the_page_answers_as_the_others_do(installed, path, sampling, backends):
    answers = []
    for name in ("numpy", *backends):
        with load(path, path, backend=name) as engine:
            for way, options in WAYS.items() if name == "numpy" else [*WAYS.items()][:1]:
                settings = Options(**options, gamma=3, max_new_tokens=8, sampling=sampling)
                chat = engine.chat(settings)
                said = [chat.reply(*question) for question in ASKED]
                answers.append(str([answer.token_ids for answer in said]))
                assert way in ("plain", "lookup") or sum(len(each.rounds) for each in said) < 16
    assert len(set(answers)) == 1


@pytest.mark.parametrize("option", [{"dtype": "float16"}, {"quantize": "int8"}, {"device": "cuda"}])
def test_the_backend_of_the_page_refuses_options_that_it_lacks(installed, path, option):
    with pytest.raises(MmspecError, match="leave other options out"):
        load(path, backend="numpy", **option)


def test_check_runs_on_the_backend_of_the_page(installed, path, tmp_path, capsys):
    words = ["--model", path, "--draft", path, "--backend", "numpy", "--max-new-tokens", "8"]
    assert main(["check", *map(str, words), "--prompt", "Why?"]) == 0
    assert "identical" in capsys.readouterr().out
    assert len(BACKEND.splitlines()) <= 150


def test_a_fault_of_a_family_is_the_plug_in_s(installed, path, tmp_path, backend):
    line = "_, height, width = pixels.shape"
    number = FAMILY[: FAMILY.index(line)].count("\n") + 1
    (tmp_path / "site" / "colours_family.py").write_text(FAMILY.replace(line, "pixels.size()[9]"))
    chat = load(path, "none", backend=backend).chat()
    with pytest.raises(PluginError, match=rf"colours .* failed in colours_family, line {number} "):
        chat.reply("Which?", SEEN)
