"""Every backend says what transformers' generate says on Qwen3 and Qwen3-VL checkpoints."""

from itertools import product

import numpy as np
import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import render
from mmspec.prompt.images import picture_from
from support.factory_qwen import tiny_qwen3, tiny_qwen3_vl
from support.qwen_oracle import Oracle, generated_text

CHECKPOINTS = {
    "plain": {},
    "tied": {"tied": True},
    "one key head": {"key_value_heads": 1},
    "all key heads": {"key_value_heads": 4},
    "wide heads": {"head_dim": 32, "sections": (6, 5, 5)},
    "time alone": {"sections": (8, 0, 0)},
    "rows and columns": {"sections": (0, 3, 3)},
    "no DeepStack": {"deepstack": ()},
    "DeepStack first": {"deepstack": (0,)},
    "DeepStack everywhere": {"deepstack": (0, 1, 2)},
    "deep": {"layers": 4, "depth": 4, "deepstack": (1, 3)},
    "small tower": {"vision_hidden_size": 16, "depth": 1, "deepstack": (0,), "side": 3},
    "large grid": {"side": 20, "theta": 5e6, "tied": True, "vocab_size": 384},
}
SHAPES = {"wide": (52, 17), "tall": (14, 61), "square": (33, 33)}
DRAFTINGS = ("none", "ngram", "M", "MT", "P")
BUDGET = 12


@pytest.fixture(scope="module", params=CHECKPOINTS)
def checkpoint(request, checkpoints):
    """A checkpoint of each variant, a smaller draft, and transformers' model of it."""
    sizes = CHECKPOINTS[request.param]
    folder = checkpoints / f"qwen {request.param}"
    path = tiny_qwen3_vl(folder / "target", seed=3, **sizes)
    vocabulary = {"vocab_size": sizes["vocab_size"]} if "vocab_size" in sizes else {}
    draft = tiny_qwen3_vl(folder / "draft", seed=4, hidden_size=32, layers=2, **vocabulary)
    return path, draft, Oracle(path)


def shown(count, width, height):
    """So many pictures of random pixels, of one shape and its turned one in turn."""
    draws = np.random.default_rng(width)
    sizes = [(width, height) if each % 2 == 0 else (height, width) for each in range(count)]
    arrays = (draws.integers(0, 256, (high, wide, 3), dtype=np.uint8) for wide, high in sizes)
    return [picture_from(Image.fromarray(array)) for array in arrays]


def check_two_turns(engine, oracle, drafting, count, shape):
    """Hold both answers of a conversation to the oracle's; returns the ids of the second."""
    chat = engine.chat(Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET))
    seen = shown(count, *SHAPES[shape])
    for text, pictures in (("Which shapes are there?", seen), ("And these?", seen[:1])):
        answer = chat.reply(text, pictures).token_ids
        turn = chat.conversation.turns.pop()
        chat.conversation.add(turn.question)
        chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
        assert answer == oracle.generated(chunks, BUDGET), (drafting, count, shape)
        chat.conversation.answer(turn.answer, turn.answer_text)
    return set(answer)


def test_two_turns_are_generates_own(checkpoint, backend):
    path, draft, oracle = checkpoint
    with load(str(path), str(draft), backend=backend) as engine:
        assert len(check_two_turns(engine, oracle, "MT", 2, "wide")) > 1


@pytest.mark.slow
@pytest.mark.parametrize("drafting", DRAFTINGS)
def test_every_count_and_shape_is_generates_own(checkpoint, backend, drafting):
    path, draft, oracle = checkpoint
    with load(str(path), str(draft), backend=backend) as engine:
        cases = product(range(1, 5), SHAPES)
        said = (check_two_turns(engine, oracle, drafting, *case) for case in cases)
        assert len(set().union(*said)) > 1


TEXTS = {
    "plain": {},
    "tied": {"tied": True, "key_value_heads": 1},
    "wide heads": {"head_dim": 48, "hidden_size": 96, "heads": 2, "theta": 1e6},
}


@pytest.mark.parametrize("variant", TEXTS)
def test_a_text_model_says_what_transformers_says(variant, backend, checkpoints):
    path = checkpoints / f"qwen3 {variant}"
    path = path if path.exists() else tiny_qwen3(path, seed=5, **TEXTS[variant])
    with load(str(path), str(path), backend=backend) as engine:
        for drafting in ("none", "T"):
            chat = engine.chat(Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET))
            answer = chat.reply("How many shapes are there?").token_ids
            chat.conversation.reopen()
            chunks = render(chat.conversation, engine.target.template, engine.target.tokenizer)
            assert answer == generated_text(path, chunks, BUDGET)


@pytest.mark.parametrize("checkpoint", ["plain"], indirect=True)
def test_a_text_model_drafts_for_one_that_sees(checkpoint, backend, checkpoints):
    path, _, oracle = checkpoint
    draft = checkpoints / "qwen3 draft"
    draft = draft if draft.exists() else tiny_qwen3(draft, seed=6, hidden_size=32, layers=1)
    with load(str(path), str(draft), backend=backend) as engine:
        check_two_turns(engine, oracle, "T", 1, "tall")
