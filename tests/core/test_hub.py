"""Names to directories, with a real hub cache filled from a hub that runs in this process."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import copytree, rmtree
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from mmspec.checkpoints.cards import Card, load_cards, present
from mmspec.checkpoints.hub import pull, resolve
from mmspec.checkpoints.hub_cache import cached_snapshot
from mmspec.ground.errors import CheckpointError, HubError, UsageError, WriteError
from support.hub_server import COMMIT, FakeHub, git_digest, reach, serving

CARDS = load_cards()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def hub(
    empty_cache: Path, llama_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[type[FakeHub]]:
    directory = tmp_path / "served"
    copytree(llama_path, directory)
    for name in ("pytorch_model.bin", "modeling_evil.py", "README.md"):
        (directory / name).write_bytes(b"never wanted")
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"never wanted")
    repositories = {"JackFram/llama-68m": directory, "org/pickled": pickled}
    with serving(repositories) as (hub, address):
        reach(address, monkeypatch)
        yield hub


def test_pull_then_resolve_offline(hub, monkeypatch):
    assert present(CARDS["llama-68m"], "torch") is None
    path = pull("llama-68m", "mlx")
    assert path.name == COMMIT
    assert (path / "model.safetensors").is_file()
    assert set(hub.requested) == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for backend in ("mlx", "torch"):
        assert resolve("llama-68m", backend) == path
        assert resolve("JackFram/llama-68m", backend) == path
        assert present(CARDS["llama-68m"], backend) == path
    assert pull("JackFram/llama-68m", "torch") == path


def test_what_was_pulled_at_another_revision_is_found_by_name(hub, monkeypatch):
    path = pull("JackFram/llama-68m", "torch", "refs/pr/3")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert resolve("JackFram/llama-68m", "torch") == resolve("llama-68m", "mlx") == path


@pytest.mark.parametrize("listed", [True, False], ids=["hub's list kept", "no list"])
def test_a_snapshot_without_all_its_weights_is_not_there(hub, empty_cache, listed):
    path = pull("llama-68m", "torch")
    if not listed:
        for trees in empty_cache.glob("*/trees"):
            rmtree(trees)
    assert cached_snapshot("JackFram/llama-68m", "main") == path
    (path / "model.safetensors").unlink()
    assert cached_snapshot("JackFram/llama-68m", "main") is None
    assert present(CARDS["llama-68m"], "torch") is None


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("org/pickled", None, r"org/pickled at main has no complete safetensors.*`--revision`$"),
        ("org/pickled", "v9", "org/pickled has no revision v9"),
        ("nobody/nothing", None, "nobody/nothing is not on the hub"),
    ],
)
def test_what_the_hub_has_not_or_pickled_alone_is_named(hub, name, revision, message):
    with pytest.raises(HubError, match=message):
        pull(name, "torch", revision)
    assert "pytorch_model.bin" not in hub.requested


@pytest.mark.parametrize("state", ["full", "full meanwhile", "read_only"])
def test_a_disk_that_refuses_a_download_is_named_and_the_next_pull_goes_on(
    hub, disk, monkeypatch, state
):
    if state == "read_only" and not disk.is_tmpfs:
        pytest.skip("no tmpfs can be mounted here")
    cache = disk.folder / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    words = f"{cache} cannot be written .*JackFram/llama-68m is not complete there"
    if state == "full":
        words = rf"llama-68m does not fit the disk: 0\.5 MB in 5 files, 0\.0 MB free in {cache}"
    with monkeypatch.context() as patch:
        if state == "full meanwhile":
            patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
        filled = disk.read_only() if state == "read_only" else disk.full(free=40_960)
        with filled, pytest.raises(WriteError, match=words) as caught:
            pull("llama-68m", "torch")
    assert "\n" not in str(caught.value)
    assert cached_snapshot("JackFram/llama-68m", "main") is None
    assert pull("llama-68m", "torch") == cached_snapshot("JackFram/llama-68m", "main")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"], ids=["sha256", "git's"])
def test_a_file_that_is_not_what_the_hub_names_is_deleted(hub, empty_cache, name):
    hub.damaged, hub.large = name, ("model.safetensors",)
    with pytest.raises(HubError, match=f"{name} is not the file that the hub names .*pull again$"):
        pull("llama-68m", "torch")
    assert cached_snapshot("JackFram/llama-68m", "main") is None
    assert not list(empty_cache.rglob("*.incomplete"))
    hub.damaged = ""
    hub.requested.clear()
    path = pull("llama-68m", "torch")
    assert name in hub.requested
    assert {file.name for file in path.iterdir()} >= {"config.json", "model.safetensors"}


def begun(hub, cache, digest, damaged=False) -> bytes:
    """Leave the beginning of the weights in the cache, as a broken download does; the whole."""
    content = (hub.repositories["JackFram/llama-68m"] / "model.safetensors").read_bytes()
    blobs = cache / "models--JackFram--llama-68m" / "blobs"
    blobs.mkdir(parents=True)
    there = b"x" * 100_000 if damaged else content[:100_000]
    (blobs / f"{digest(content)}.incomplete").write_bytes(there)
    return content


def test_an_interrupted_file_goes_on_where_it_was(hub, empty_cache):
    hub.large = ("model.safetensors",)
    content = begun(hub, empty_cache, lambda whole: sha256(whole).hexdigest())
    notes: list[str] = []
    path = pull("llama-68m", "torch", note=notes.append)
    assert hub.ranges == [("model.safetensors", 100_000)]
    assert (path / "model.safetensors").read_bytes() == content
    [note] = notes
    left = sum(file.stat().st_size for file in path.iterdir()) - 100_000
    assert note.startswith(f"JackFram/llama-68m: {left / 1e6:.1f} MB in 5 files, ")
    assert note.endswith(f" free in {empty_cache}")
    pull("llama-68m", "torch", note=notes.append)
    assert notes == [note]


def test_what_a_broken_download_left_is_not_trusted(hub, empty_cache):
    content = begun(hub, empty_cache, git_digest, damaged=True)
    with pytest.raises(HubError, match=r"model\.safetensors is not the file"):
        pull("llama-68m", "torch")
    assert (pull("llama-68m", "torch") / "model.safetensors").read_bytes() == content


@pytest.mark.parametrize(
    "name", ["../evil.json", "a/../../evil.json", "/evil.json", "a\\b.json", "\x1b[2J.json", ""]
)
def test_names_that_leave_the_folder_are_refused_before_anything_is_asked_for(
    hub, empty_cache, name
):
    hub.odd_names = (name,)
    with pytest.raises(HubError, match=r"names a file .*which does not lie in its") as caught:
        pull("llama-68m", "torch")
    assert str(caught.value).isprintable()
    assert not hub.requested
    assert not empty_cache.exists()


def test_a_commit_is_a_pinned_revision(hub, empty_cache, monkeypatch):
    pinned = replace(CARDS["llama-68m"], revisions={"torch": COMMIT})
    for module in ("hub", "cards"):
        cards = f"mmspec.checkpoints.{module}.load_cards"
        monkeypatch.setattr(cards, lambda: {"llama-68m": pinned})
    assert pull("llama-68m", "torch").name == COMMIT
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in ("llama-68m", "JackFram/llama-68m"):
        assert resolve(name, "torch").name == pull(name, "torch").name == COMMIT
    assert cached_snapshot("JackFram/llama-68m", "main") is None


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("llava-1.5-7b", HubError, r"run `mmspec models pull llava-1\.5-7b --backend mlx` where"),
        ("org/model", HubError, r"`mmspec models pull org/model --backend mlx` where there is net"),
        ("llava-hf/llava-1.5-7b", HubError, r"known and near: llava-hf/llava-1\.5-7b-hf"),
        ("minni", UsageError, "unknown model 'minni'.*nearest: mini"),
        ("./nowhere", UsageError, "no directory ./nowhere"),
        ("", UsageError, "unknown model '': give a directory, a hub id or a name"),
        (__file__, CheckpointError, "is a file: give the directory of the model"),
    ],
)
def test_names_that_lead_nowhere(empty_cache, name, error, message):
    with pytest.raises(error, match=message) as caught:
        resolve(name, "mlx")
    assert "\n" not in str(caught.value)


def test_a_directory_is_found_where_no_model_here_has_its_name(
    empty_cache, llama_path, tmp_path, monkeypatch
):
    assert resolve(str(llama_path), "torch") == llama_path
    monkeypatch.chdir(tmp_path)
    for name in ("mini", "llama-68m"):
        copytree(llama_path, tmp_path / name)
    assert resolve("mini", "torch") == CARDS["mini"].bundled
    assert resolve("./mini", "torch") == Path("mini")
    assert resolve("llama-68m", "torch") == Path("llama-68m")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/mini", "torch") == tmp_path / "mini"
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match=r"other has no config\.json"):
        resolve("other", "torch")


def test_no_network(empty_cache, monkeypatch):
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        pull("llama-68m", "torch")
    reach("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(HubError, match="cannot pull JackFram/llama-68m: is there") as caught:
        pull("llama-68m", "torch")
    assert "\n" not in str(caught.value)


def test_absent_bundled_weights_say_so(tmp_path, monkeypatch):
    gone = Card("mini", "target", "", "", bundled=tmp_path / "gone")
    monkeypatch.setattr("mmspec.checkpoints.hub.load_cards", lambda: {"mini": gone})
    assert present(gone, "torch") is None
    for get in (resolve, pull):
        with pytest.raises(HubError, match=r"mini is bundled, but its weights are not in .*gone"):
            get("mini", "torch")
