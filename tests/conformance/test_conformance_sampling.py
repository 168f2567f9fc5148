"""Drawn tokens follow the target's distribution exactly, and are the same on every backend."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from conformance_cases import DRAFTINGS, PICTURES, Case, questions, replies
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

import factory
from factory_heads import KINDS, tiny_head
from mmspec.draft import HostDraft
from mmspec.loop import decode
from mmspec.ngram import NgramDrafter
from mmspec.options import Options
from mmspec.registry import load_backend
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment
from mmspec.tree import Tree

VOCABULARY = 6
PROMPT = [1, 5, 4, 2, 5]
OTHER_VIEW = [1, 4, 5]
COUNT = 500
SAMPLINGS = {
    "T1": Sampling(1.0),
    "T0.6": Sampling(0.6),
    "top-k": Sampling(1.3, top_k=3),
    "top-p": Sampling(1.0, top_p=0.7),
    "all": Sampling(0.8, top_k=4, top_p=0.8),
}


class Uneven:
    """Two views, the first one counting more."""

    def weights(self, row_lengths, gamma):
        return [0.7, 0.3][: len(row_lengths)] if len(row_lengths) > 1 else [1.0]


class Hosted(NgramDrafter):
    """Proposes from the host, whatever was said."""

    def draft(self, k, weights, draws):
        return HostDraft([3, 1][:k])


@pytest.fixture(scope="session")
def llamas(checkpoints):
    """A target of six tokens, no two equally likely, and a draft with quite another head."""
    sizes = {"vocab_size": VOCABULARY, "layers": 1, "hidden_size": 32, "heads": 2}
    sizes |= {"key_value_heads": 2, "intermediate_size": 64}
    paths = [factory.tiny_llama(checkpoints / f"six-{name}", **sizes) for name in "ab"]
    heads = torch.randn(2, VOCABULARY, 32, generator=torch.Generator().manual_seed(0)) / 4
    for path, head in zip(paths, (heads[0], heads.mean(0)), strict=True):
        tensors = load_file(path / "model.safetensors")
        save_file(tensors | {"lm_head.weight": head}, path / "model.safetensors")
    return paths


@pytest.fixture(scope="session")
def models(llamas, backend):
    """Both on a backend."""
    return [load_backend(backend).load(path, device="cpu") for path in llamas]


@pytest.fixture(scope="session")
def rows(llamas):
    """transformers' logits after the prompt and after the prompt and each token, in float64."""
    model = LlamaForCausalLM.from_pretrained(llamas[0], dtype=torch.float64).eval()
    prompts = [[*PROMPT, token] for token in range(VOCABULARY)]
    with torch.inference_mode():
        logits = model(torch.tensor(prompts)).logits.numpy()
    return {(): logits[0, -2]} | {(token,): logits[token, -1] for token in range(VOCABULARY)}


def warped(row, sampling):
    """The distribution the long way: temperature, then top-k, then top-p."""
    p = np.exp((row - row.max()) / sampling.temperature)
    p /= p.sum()
    order = np.argsort(-p)
    if sampling.top_k:
        p[order[sampling.top_k :]] = 0
        p /= p.sum()
    reached = np.cumsum(p[order]) - p[order]
    p[order[reached >= sampling.top_p]] = 0
    return p / p.sum()


def exact(rows, sampling):
    """The joint distribution of the first two tokens."""
    first = warped(rows[()], sampling)
    return {
        (one, two): first[one] * warped(rows[(one,)], sampling)[two]
        for one, two in product(range(VOCABULARY), repeat=2)
    }


def drawn(target, drafter, views):
    """How often each pair came first, over as many seeds."""
    target.extend(Segment(PROMPT))
    drafter.extend([Segment(view) for view in views])
    starts = target.length, drafter.length
    seen, accepted, drafted = Counter(), 0, 0
    for seed in range(COUNT):
        target.rewind(starts[0])
        drafter.rewind(starts[1])
        rounds = list(decode(target, drafter, Uneven(), gamma=2, max_tokens=3, seed=seed))
        seen[tuple([token for each in rounds for token in each.tokens][:2])] += 1
        accepted += sum(each.accepted for each in rounds)
        drafted += sum(each.depth for each in rounds)
    assert 0.05 < accepted / drafted < 0.95
    return seen


def bound(freedom):
    """99.99 % of chi-square (Wilson and Hilferty's approximation)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.72 * spread**0.5) ** 3


ENSEMBLE = [PROMPT, OTHER_VIEW]
CONFIGURATIONS = [
    pytest.param(name, proposal, views, id=f"{name}-{proposal}-{len(views)}")
    for name in SAMPLINGS
    for proposal in ("drawn", "argmax")
    for views in ([[PROMPT], ENSEMBLE] if name == "T1" else [ENSEMBLE])
]
CONFIGURATIONS += [pytest.param(name, "host", [PROMPT], id=f"{name}-host") for name in SAMPLINGS]
TREES = {"static": Tree((3, 2)), "dynamic": Tree((), 3, 6)}
GROWN = [
    pytest.param(name, tree, views, id=f"{name}-{tree}-{len(views)}")
    for name, tree, views in [
        ("T1", "static", [PROMPT]),
        ("T1", "dynamic", ENSEMBLE),
        ("T0.6", "dynamic", [PROMPT]),
        ("top-k", "static", ENSEMBLE),
        ("top-p", "dynamic", ENSEMBLE),
        ("all", "static", ENSEMBLE),
    ]
]


@pytest.mark.parametrize(("name", "proposal", "views"), CONFIGURATIONS)
def test_pairs_of_tokens_come_as_often_as_the_target_says(models, rows, name, proposal, views):
    sampling = SAMPLINGS[name]
    drafter = Hosted()
    if proposal != "host":
        drawing = sampling if proposal == "drawn" else GREEDY
        drafter = models[1].open_drafter(len(views), VOCABULARY, drawing)
    check_counts(drawn(models[0].open_target(sampling), drafter, views), rows, sampling)


@pytest.mark.parametrize(("name", "tree", "views"), GROWN)
def test_pairs_come_as_often_where_trees_are_drafted(models, rows, name, tree, views):
    sampling = SAMPLINGS[name]
    drafter = models[1].open_drafter(len(views), VOCABULARY, sampling, None, TREES[tree])
    check_counts(drawn(models[0].open_target(sampling), drafter, views), rows, sampling)


@pytest.mark.parametrize("tree", [None, "static", "dynamic"])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_come_as_often_where_heads_draft(backend, models, rows, kind, tree, tmp_path):
    sampling, target = SAMPLINGS["T1" if tree else "all"], models[0]
    sizes = {"hidden_size": 32, "vocab_size": VOCABULARY}
    if kind in ("eagle", "msd", "flash"):
        sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
    directory = tiny_head(tmp_path / "head", kind, seed=1, **sizes)
    opened = target.open_target(sampling)
    head = load_backend(backend).load_head(directory, target)
    drafter = head.open_drafter(opened, sampling, TREES[tree] if tree else None)
    check_counts(drawn(opened, drafter, [PROMPT]), rows, sampling)


def check_counts(seen, rows, sampling):
    """Hold what was drawn to the exact joint distribution."""
    expected = {pair: p * COUNT for pair, p in exact(rows, sampling).items()}
    assert all(expected[pair] > 1e-9 for pair in seen)
    rare = [pair for pair, count in expected.items() if count < 5]
    pooled = sum(expected[pair] for pair in rare), sum(seen[pair] for pair in rare)
    cells = [(count, seen[pair]) for pair, count in expected.items() if pair not in rare]
    cells += [pooled] if pooled[0] else []
    chi_square = sum((got - count) ** 2 / count for count, got in cells)
    assert chi_square < bound(len(cells) - 1)


@pytest.mark.parametrize("drafting", ["M", "MT", "MTCP", "none"])
@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_same_seed_gives_the_same_tokens_on_every_backend(backends, engines, drafting, name):
    options = Options(drafting=drafting, gamma=3, max_new_tokens=12, sampling=SAMPLINGS[name])
    asked = list(questions(Case(drafting, 3, 2, 2), DRAFTINGS.index("MT")))
    for seed in range(2):
        chosen = replace(options, seed=seed)
        first, *others = (replies(engines[name].chat(chosen), asked) for name in backends)
        assert all(other == first for other in others)


def test_another_seed_gives_other_tokens(engine):
    options = Options(drafting="MT", max_new_tokens=12, sampling=Sampling(1.0))
    answers = [
        engine.chat(replace(options, seed=seed)).reply("What is it?", PICTURES[:1]).token_ids
        for seed in (1, 2)
    ]
    assert answers[0] != answers[1]
