"""Block drafters in every layout and over every family: plain answers, and trees path by path."""

from itertools import product
from types import SimpleNamespace

import pytest
from test_conformance_heads import SAMPLINGS
from test_conformance_mrope_heads import ASKED as SHOWN
from test_conformance_mrope_heads import check_lossless

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from support.conformance_cases import PICTURES, in_turn
from support.factory_heads import tiny_head
from support.factory_layouts import change_tensors
from support.factory_published import deepspec, z_lab
from support.heads_oracle import eagle2, paths
from support.sequence_helpers import beside

SHAPES = [("dflash", {})]
SHAPES += [("dspark", {"markov_head_type": each}) for each in ("vanilla", "gated", "rnn")]


@pytest.mark.parametrize(("kind", "given"), SHAPES)
def test_trees_are_those_grown_path_by_path(
    backend, pair_paths, tmp_path, kind, given, monkeypatch
):
    """Every path in a block of its own, whose rows are held to others' elsewhere."""
    path = tiny_head(tmp_path / "head", kind, seed=3, **given)
    change_tensors(  # corrections that decide
        path, lambda own: {name: x * (1 + 3 * ("markov" in name)) for name, x in own.items()}
    )
    model = load_backend(backend).load(pair_paths[0])
    head = load_backend(backend).load_head(path, model)
    _, drafter = beside(model, head, Segment([[1, *range(20, 28)]]), tree=Tree((), 3, 30))
    forwards, begun = drafter._forwards, []
    framework, begin = forwards._framework, forwards._expander
    monkeypatch.setattr(
        forwards, "_expander", lambda *block: begin(*(begun.append(block) or block))
    )
    tree = drafter.draft(Plan(4), NO_NOISE)

    def says(drafted):
        with framework.inference():
            expander = begin(*begun[0])
            rows = expander.root()
            for token in drafted:
                rows = expander.expand(framework.integers([token]), framework.integers([0]))
        return framework.xp.softmax(rows[0], -1)

    assert paths(tree) == eagle2(SimpleNamespace(says=says), width=3, nodes=30, depth=4)


ASKED = [("What is it?", PICTURES[:1]), ("And?", ())]
LAYOUTS = {
    "deepspec": (deepspec, {}),
    "deepspec, gated": (deepspec, {"markov_head_type": "gated"}),
    "z-lab, causal": (z_lab, {"nested": {"causal": True}}),
}


@pytest.mark.parametrize(("backend", "layout"), in_turn(LAYOUTS, others=True), indirect=["backend"])
def test_a_published_drafter_equals_plain(backend, pair_paths, tmp_path, layout):
    write, given = LAYOUTS[layout]
    head = write(tmp_path / "head", seed=4, **given)
    with load(pair_paths[0], head, backend=backend) as engine:
        check_lossless(engine, ASKED)


class Cutting:
    """A draft length that cuts blocks of four, each to another size."""

    def __init__(self):
        self.chances, self.sizes, self.drafted = [], [], []

    def choose(self, max_gamma, context):
        return Plan(min(4, max_gamma), pays=self.pays)

    def pays(self, chances):
        self.chances.append(chances)
        self.sizes.append(1 + len(self.sizes) % len(chances))
        return self.sizes[-1]

    def observe(self, round_):
        self.drafted += [round_.drafted] if round_.drafted else []


CUTS = in_turn(product(["dflash", "dspark", "dspark mapped"], SAMPLINGS))


@pytest.mark.parametrize(("backend", "cut"), CUTS, indirect=["backend"])
def test_where_a_block_is_cut_changes_no_token(headed, backend, cut):
    variant, name = cut

    def decoded(length):
        chat = headed(backend, variant).chat(Options(max_new_tokens=9, sampling=SAMPLINGS[name]))
        chat.reply(*ASKED[0])
        rounds = chat._session.decode(length, max_tokens=16, stop=(), seed=5)
        return [token for round_ in rounds for token in round_.tokens]

    cutting = Cutting()
    assert decoded(cutting) == decoded(FixedDraftLength(0))
    assert cutting.drafted == cutting.sizes
    assert set(cutting.sizes) >= {1, 2}
    for chances in cutting.chances:
        assert 1 >= chances[0] > 0
        assert chances == sorted(chances, reverse=True)


SECTIONS = {"rope_scaling": {"mrope_section": [8, 4, 4], "mrope_interleaved": True}}


GIVEN = [SECTIONS, {}, {"image_context": False}]


@pytest.mark.parametrize(("backend", "given"), in_turn(GIVEN, others=True), indirect=["backend"])
def test_a_drafter_of_a_text_model_equals_plain_for_a_qwen_that_sees(
    backend, qwen_pairs, tmp_path, given
):
    """As published, with M-RoPE, and fed the text alone."""
    target, _ = qwen_pairs("qwen3_vl", "text drafter", seed=3)
    head = z_lab(tmp_path / "head", seed=4, **given)
    with load(target, head, backend=backend) as engine:
        check_lossless(engine, SHOWN)
