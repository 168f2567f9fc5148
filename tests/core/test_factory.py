"""The tiny checkpoints are what the other tests take them for."""

import numpy as np
import pytest
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


@pytest.mark.parametrize(("bits", "group_size"), [(4, 64), (8, 32)])
def test_mlx_lm_reads_the_conversion(tmp_path, llama_path, bits, group_size):
    import mlx.core as mx
    from mlx_lm.utils import load_model
    from transformers import LlamaForCausalLM

    model, _ = load_model(factory.quantized(llama_path, tmp_path / "mlx", bits, group_size))
    ids = list(range(4, 30))
    ours = np.array(model(mx.array([ids])))[0]
    with torch.no_grad():
        plain = LlamaForCausalLM.from_pretrained(llama_path)(torch.tensor([ids])).logits[0].numpy()
    correlation = np.corrcoef(ours.ravel(), plain.ravel())[0, 1]
    assert correlation > (0.999 if bits == 8 else 0.8)
