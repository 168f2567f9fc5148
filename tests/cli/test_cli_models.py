import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from mmspec.checkpoints.cards import load_cards
from support.hub_server import PAIR, reach, serving


def bundled(name: str) -> Path:
    path = load_cards()[name].bundled
    assert path is not None
    return path


def test_the_list_says_how_large_models_are_and_which_to_take(run, monkeypatch):
    monkeypatch.setattr("mmspec.checkpoints.recommendation.memory_bytes", lambda: 16 * 2**30)
    *lines, last = run("models", "list", "--backend", "mlx").out.splitlines()
    [line] = [line for line in lines if line.startswith("qwen3-vl-8b ")]
    assert line.split()[2:4] == ["5.8", "GB"]
    pull = "`mmspec models pull qwen3-vl-8b --backend mlx`"
    assert f"{pull} (qwen3-vl-8b, with its draft qwen3-vl-2b: 8 GB" in last


def test_a_model_is_pulled_quantized_chatted_with_and_removed(
    run, pair_paths, tmp_path, monkeypatch
):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    pull = ("models", "pull", "llava-1.5-7b", "--bits", "8")
    with serving(dict(zip(PAIR, pair_paths, strict=True))) as (hub, address):
        reach(address, monkeypatch)
        for wrong in ((*pull[:-1], "3"), (*pull, "--backend", "torch")):
            assert run(*wrong).status == 2
        assert not hub.requested  # said before gigabytes are there
        done = run(*pull)
        again = run(*pull)
        directory = run("models", "pull", "lvlm68m").out.strip()
    copy, draft = done.out.splitlines()
    assert (done.status, copy, draft) == (0, "llava-1.5-7b-8bit", directory)
    assert Path(draft).is_dir()
    assert json.loads((tmp_path / copy / "config.json").read_text())["quantization"]["bits"] == 8
    assert (again.status, "llava-1.5-7b-8bit is here already" in again.err) == (2, True)
    command = done.err.rpartition("`mmspec ")[2].partition("`")[0].split()
    talk = run(*command, "--max-new-tokens", "3", "--json", stdin="hello")
    assert (command[-1], talk.status) == ("lvlm68m", 0)
    assert len(json.loads(talk.out)["token_ids"]) == 3
    removed = run("models", "rm", "lvlm68m")
    assert (removed.status, removed.out.startswith("deleted lvlm68m: ")) == (0, True)
    assert not Path(draft).exists()
    assert "not in" in run("models", "rm", "lvlm68m").err
    assert run("models", "rm", "mini").status == 2


def test_a_directory_is_described_from_its_files(run, pair_paths, tmp_path):
    target = json.loads(run("models", "show", str(pair_paths[0]), "--json").out)
    config = json.loads((pair_paths[0] / "config.json").read_text())
    assert (target["kind"], target["family"]) == ("model for images", config["model_type"])
    assert target["layers"] == config["text_config"]["num_hidden_layers"]
    assert (target["draft"], target["directory"]) == ("lookup", str(pair_paths[0]))
    card, files = (
        json.loads(run("models", "show", name, "--json").out) for name in ("mini", bundled("mini"))
    )
    assert card["memory"] == files["memory"] != {}
    assert "head: eagle3" in run("models", "show", str(bundled("mini-eagle3"))).out
    assert "no config.json" in run("models", "show", str(tmp_path)).err


@pytest.mark.parametrize(
    "command", [("chat", "--model"), ("serve", "--port", "0"), ("models", "show")]
)
def test_a_gguf_file_is_named(run, tmp_path, command):
    file = tmp_path / "model-Q4_K_M.gguf"
    file.write_bytes(b"GGUF")
    for place in (file, tmp_path):
        failed = run(*command, str(place))
        assert failed.status != 0
        assert "GGUF" in failed.err
        assert "safetensors" in failed.err
