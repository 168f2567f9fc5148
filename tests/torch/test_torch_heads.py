"""Heads draft what they draft when everything is computed anew by transformers' modules."""

from itertools import chain

import pytest
import torch
from safetensors.torch import load_file

from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_torch.backend import TorchBackend
from mmspec_torch.heads.convert import convert, main
from support import heads_oracle, transformers_oracle
from support import sequence_helpers as helpers
from support.factory_heads import BLOCKS, KINDS, tiny_head
from support.factory_published import published
from support.sequence_helpers import flat, segment_of

DRAWN = Sampling(1.0)

VARIANTS = {
    "eagle": {},
    "eagle, grouped, biased": {"qkv_bias": True, "num_key_value_heads": 2},
    "eagle, no bias": {"bias": False},
    "eagle3": {},
    "msd": {},
    "msd, input norm": {"input_norm": True},
    "vispec": {},
    "vispec, three": {"qkv_bias": True, "num_key_value_heads": 2, "queries": 3, "bias": False},
    "medusa": {},
    "medusa, mean": {"vision": "mean"},
    "hydra": {},
    "flash": {},
    "flash, whole": {"queries": 0},
}
"""What the config of each head says; the first word is its kind."""
PROMPTS = {
    "text": (1, 20, 21, 22, 23),
    "images": (1, "image", "image", 20, 21, "image", 22, 23),
}


@pytest.fixture(scope="module")
def target(pair_paths):
    return TorchBackend().load(pair_paths[0], device="cpu")


@pytest.fixture(scope="module")
def original(pair_paths):
    return transformers_oracle.transformers_model(pair_paths[0])


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request, tmp_path_factory):
    kind, given = request.param.partition(",")[0], VARIANTS[request.param]
    return tiny_head(tmp_path_factory.mktemp("heads") / "head", kind, seed=3, **given)


def prompt(target, parts):
    """A segment and the pixels in it; None without images."""
    count = parts.count("image")
    pixels = helpers.pixels(32, count)
    tokens = [[helpers.IMAGE] * 16 if part == "image" else [part] for part in parts]
    segment = segment_of([*chain(*tokens)], [target.encode(image) for image in pixels])
    return segment, torch.tensor(pixels) if count else None


def opened(target, directory, segment, sampling=GREEDY, tree=None):
    head = TorchBackend().load_head(directory, target)
    return helpers.beside(target, head, segment, sampling, tree)


def reference(directory, original, tokens, pixels):
    """The head over a prompt."""
    columns = transformers_oracle.read_columns(original, tokens, pixel_values=pixels)
    return heads_oracle.Reference(directory, original, tokens, columns)


@pytest.mark.parametrize("name", PROMPTS)
def test_drawn_chains_come_from_the_heads_own_distributions(variant, target, original, name):
    segment, pixels = prompt(target, PROMPTS[name])
    sequence, drafter = opened(target, variant, segment, DRAWN)
    heads_oracle.check_chain(sequence, drafter, reference(variant, original, flat(segment), pixels))
    rounds = helpers.rounds(sequence, drafter, 5, gamma=2, seed=1)
    tokens = [*flat(segment), *helpers.tokens(rounds)]
    heads_oracle.check_chain(sequence, drafter, reference(variant, original, tokens, pixels))


@pytest.mark.parametrize("nodes", [7, 21], ids=["likeliest", "all"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BLOCKS])
def test_dynamic_trees_are_those_grown_path_by_path(tmp_path, target, original, kind, nodes):
    directory = tiny_head(tmp_path / "head", kind, seed=3)
    segment, pixels = prompt(target, PROMPTS["images"])
    sequence, drafter = opened(target, directory, segment, tree=Tree((), 3, nodes))
    for _ in range(2):
        every = reference(directory, original, flat(segment), pixels)
        grown = heads_oracle.eagle2(every, width=3, nodes=nodes, depth=3)
        assert heads_oracle.paths(drafter.draft(Plan(3), NO_NOISE)) == grown
        rounds = helpers.rounds(sequence, drafter, 3, gamma=3)
        segment = Segment([*segment.parts, helpers.tokens(rounds)])


# Published heads


@pytest.mark.parametrize("model_type", ["llava", "llama", "qwen2"])
def test_published_pickles_draft_like_their_conversions(target, tmp_path, model_type, capsys):
    directory = published(tmp_path / "head", model_type, pickled=True)
    segment, _ = prompt(target, PROMPTS["images"])
    first = opened(target, directory, segment)[1].draft(Plan(3), NO_NOISE).ids
    assert main([str(directory)]) == 0
    tensors = load_file(directory / "model.safetensors")
    config = TorchBackend().load_head(directory, target).config
    assert set(tensors) == set(head_manifest(config))
    (directory / "pytorch_model.bin").unlink()
    again = opened(target, directory, segment)[1].draft(Plan(3), NO_NOISE).ids
    assert again.tolist() == first.tolist()
    with pytest.raises(UsageError, match="no pickled weights"):
        convert(directory)
    assert main([]) == 2
    assert "name the directory of a head" in capsys.readouterr().err


class Trap:
    """Would call a function when it is unpickled."""

    def __reduce__(self):
        return (print, ("opened",))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "fc.bias"}, "fc.bias .*is missing"),
        (lambda t: t | {"lm_head.weight": t["fc.bias"]}, "lm_head.weight is unexpected"),
        (lambda t: t | {"fc.weight": t["fc.weight"].T.contiguous()}, "fc.weight is"),
        (lambda t: t | {"trap": Trap()}, "does not hold tensors alone"),
        (lambda t: list(t.values()), "does not hold tensors by name"),
    ],
    ids=["missing", "unexpected", "misshapen", "code", "a list"],
)
def test_pickles_are_held_to_the_manifest_and_never_run(target, tmp_path, change, said, capsys):
    directory = published(tmp_path / "head", "llava", pickled=True)
    file = directory / "pytorch_model.bin"
    torch.save(change(torch.load(file, weights_only=True)), file)
    with pytest.raises((CheckpointError, UsageError), match=said):
        TorchBackend().load_head(directory, target)
    assert capsys.readouterr().out == ""
