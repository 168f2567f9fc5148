"""Any thread may answer: MLX computes an array only in the thread that described it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

import mmspec
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec_mlx.backend import MlxBackend
from support import sequence_helpers as helpers
from support.conformance_cases import HEADS
from support.factory_heads import tiny_head
from support.factory_qwen import QWENS, tiny_qwen

QUESTIONS = "what is it?", "what is it, and what is that?"


def answers(engine: mmspec.Engine, **options: object) -> list[list[int]]:
    """Token ids of two answers of one chat, each computed by a thread of its own."""
    chat = engine.chat(mmspec.Options(max_new_tokens=8, gamma=3, **options))
    ids = []
    for question, images in zip(QUESTIONS, ([Image.new("RGB", (64, 64), "red")], []), strict=True):
        with ThreadPoolExecutor(1) as thread:
            ids.append([*thread.submit(chat.reply, question, *images).result().token_ids])
    return ids


@pytest.mark.parametrize("kind", QWENS)
def test_what_a_model_loads_is_computed_by_the_thread_that_loads_it(kind, tmp_path):
    path = tiny_qwen(kind, tmp_path / kind)
    engine = mmspec.load(path, "none", backend="mlx", device="cpu", ready=False)
    assert answers(engine, drafting="lookup") == answers(engine, drafting="none")


MINIS = ["mini-draft", "mini-eagle3", "mini-dspark", "mini-medusa"]


@pytest.mark.parametrize("draft", [*MINIS, "eagle3 mapped", "dspark mapped"])
def test_what_an_answer_leaves_is_computed_by_its_thread(draft, pair_paths, tmp_path):
    target = "mini"
    if draft in HEADS:
        kind, config = HEADS[draft]
        target, draft = pair_paths[0], tiny_head(tmp_path / "head", kind, **config)
    engine = mmspec.load(target, draft, backend="mlx", device="cpu", ready=False)
    tree = mmspec.Tree()
    plain = answers(engine, drafting="none")
    assert answers(engine) == answers(engine, tree=tree) == plain


def test_a_recurrent_layer_goes_back_to_a_row_before_padding_in_another_thread(tmp_path):
    model = MlxBackend().load(tiny_qwen("qwen3_5", tmp_path / "recurrent"), device="cpu")
    target = model.open_target(helpers.GREEDY, ExactRows(4, 8))
    target.extend(helpers.TEXT)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(target.verify, HostDraft([30, 31]), NO_NOISE).result()
    target.commit((), 50)
    target.logits()


def test_sequences_that_one_thread_opens_are_fed_by_another(tmp_path):
    model = MlxBackend().load(tiny_qwen("qwen3_5", tmp_path / "recurrent"), device="cpu")
    target = model.open_target(helpers.GREEDY).hidden_states()
    branches = model.open_branches(1, helpers.VOCABULARY, helpers.GREEDY)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(target.extend, helpers.TEXT).result()
        thread.submit(branches.extend, [helpers.TEXT]).result()
