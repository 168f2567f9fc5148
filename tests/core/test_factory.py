"""The tiny checkpoints are what the other tests take them for."""

import torch

from support import factory

PROMPT = "USER: what is there? ASSISTANT:"


def test_text_varies_and_the_draft_is_sometimes_right(pair_paths):
    from transformers import AutoTokenizer, LlavaForConditionalGeneration

    target, draft = (LlavaForConditionalGeneration.from_pretrained(path) for path in pair_paths)
    prompt = AutoTokenizer.from_pretrained(pair_paths[0])(PROMPT, return_tensors="pt")
    written = target.generate(**prompt, max_new_tokens=80, min_new_tokens=80, do_sample=False)
    start = prompt["input_ids"].shape[1]
    with torch.no_grad():
        guessed = draft(input_ids=written).logits[0, start - 1 : -1].argmax(-1)
    answer = written[0, start:]
    assert len(set(answer.tolist())) > 20
    assert answer.max() < factory.TOKENIZER_SIZE
    assert factory.IMAGE_TOKEN_ID not in answer
    assert 0.2 < (guessed == answer).float().mean() < 0.8
