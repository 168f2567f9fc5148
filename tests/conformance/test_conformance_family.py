"""The family of docs/extending.md, in a package beside this one, runs on every backend."""

import json
import re
from importlib import invalidate_caches
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import CheckpointError
from mmspec.prompt.images import picture_from
from support import factory
from support.factory_layouts import write_json

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The entry points of the page where pip would have put them."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    [points] = [block for block in blocks if "mmspec.families" in block]
    points = re.sub(r'project\.entry-points\."(.*?)"', r"\1", points).replace('"', "")
    information = tmp_path / "site" / "colours-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\n")
    (information / "entry_points.txt").write_text(points)
    module = "from support.toy_family.family import *\n"
    (tmp_path / "site" / "colours_family.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path / "site")
    invalidate_caches()


@pytest.fixture
def path(tmp_path):
    """A random checkpoint of the family: a Llama's tensors and the colours' layer."""
    from safetensors.numpy import load_file, save_file

    directory = factory.tiny_llama(tmp_path / "colours", seed=2)
    tensors = load_file(directory / "model.safetensors")
    tensors = {name: array for name, array in tensors.items() if "inv_freq" not in name}
    draws = np.random.default_rng(0)
    for kind, shape in (("weight", (64, 3)), ("bias", (64,))):
        name = f"multi_modal_projector.colours.{kind}"
        tensors[name] = draws.normal(size=shape).astype(np.float32)
    save_file(tensors, directory / "model.safetensors")
    text = json.loads((directory / "config.json").read_text())
    write_json(directory / "config.json", {"model_type": "colours", "text_config": text})
    return directory


def test_a_family_from_another_package_answers_with_images_and_drafts(installed, path, backend):
    with load(str(path), str(path), backend=backend) as engine:
        assert engine.target.model.tower == engine.draft.model.tower != ""
        seen = [picture_from(Image.new("RGB", (20, 14), colour)) for colour in ("red", "blue")]
        answers = {}
        for drafting in ("none", "M", "MTP", "ngram"):
            chat = engine.chat(Options(drafting=drafting, gamma=3, max_new_tokens=10))
            answers[drafting] = [chat.reply("Which?", seen).token_ids, chat.reply("Why?").token_ids]
        assert len(set(map(str, answers.values()))) == 1
        chat = engine.chat(Options(drafting="none", max_new_tokens=10))
        assert [chat.reply("Which?", seen[::-1]).token_ids] != answers["none"][:1]


def test_without_the_package_its_model_type_is_unknown(path):
    with pytest.raises(CheckpointError, match='model_type is "colours", but must be "llava" or'):
        read_config(path)
