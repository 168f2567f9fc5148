"""Tiny random checkpoints on disk, in every layout that mmspec reads. Deterministic by seed.

Names and files are written by transformers or by hand here, never by mmspec's own readers, so
that a wrong reader cannot agree with itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from support.factory_layouts import IMAGE_TOKEN_ID, TOKENIZER_SIZE, Layout, Sizes, text_sizes, write
from support.factory_mlx import dequantized, quantized

__all__ = ["IMAGE_TOKEN_ID", "TOKENIZER_SIZE", "Sizes", "dequantized", "quantized", "silenced"]
__all__ += ["randomized", "tiny_llama", "tiny_llava", "tiny_pair"]


def tiny(
    kind: str,
    path: Path,
    *,
    layout: Layout = "hub",
    dtype: str = "float32",
    sharded: bool = False,
    seed: int = 0,
    **sizes: Any,
) -> Path:
    """Write a random LLaVA or Llama with tokenizer and processor files; returns `path`."""
    chosen = Sizes(**sizes)
    model = (_llava_model if kind == "llava" else _llama_model)(chosen, seed)
    return write(model, path, chosen, layout, dtype, sharded)


tiny_llava, tiny_llama = partial(tiny, "llava"), partial(tiny, "llama")


def tiny_pair(
    path: Path,
    *,
    seed: int = 0,
    draft_positions: int | None = None,
    **sizes: Any,
) -> tuple[Path, Path]:
    """Write a target and a draft that guesses it right sometimes: its weights plus noise.

    The towers are equal, so features are shared.
    """
    chosen = Sizes(**sizes)
    target = _llava_model(chosen, seed)
    draft_sizes = replace(chosen, positions=draft_positions or chosen.positions)
    draft = _llava_model(draft_sizes, seed)
    _perturb(draft, seed + 1)
    return (
        write(target, path / "target", chosen, "hub", "float32", False),
        write(draft, path / "draft", draft_sizes, "hub", "float32", False),
    )


def _llava_model(sizes: Sizes, seed: int) -> Any:
    from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=sizes.image_size,
        patch_size=sizes.patch_size,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=_llama_config(sizes),
        image_token_index=IMAGE_TOKEN_ID,
        image_seq_length=sizes.image_tokens,
        vision_feature_layer=sizes.feature_layer,
        vision_feature_select_strategy=sizes.select_strategy,
        tie_word_embeddings=sizes.tied,
    )
    return silenced(randomized(LlavaForConditionalGeneration(config), seed), SILENT)


def _llama_model(sizes: Sizes, seed: int) -> Any:
    from transformers import LlamaForCausalLM

    return silenced(randomized(LlamaForCausalLM(_llama_config(sizes)), seed), SILENT)


def _llama_config(sizes: Sizes) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        **text_sizes(sizes),
        rms_norm_eps=1e-5,
        tie_word_embeddings=sizes.tied,
        pad_token_id=0,
    )


def randomized(model: Any, seed: int) -> Any:
    """Fill every parameter, norms and biases too.

    Matrices get twice the variance that keeps a signal's size, so that attention looks at
    something and greedy text does not settle on one token.
    """
    import torch

    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draws)
            if weight.ndim == 1:
                weight.copy_(0.1 * noise + ("norm" in name and name.endswith("weight")))
            else:
                weight.copy_(noise * (2.0 / weight[0].numel()) ** 0.5)
    return model.eval()


SILENT = [0, 1, IMAGE_TOKEN_ID]
"""The ids of pad, <s> and <image>."""


def silenced(model: Any, ids: Sequence[int]) -> Any:
    """Keep these and padded ids from being generated, as training does: logit 0."""
    import torch

    with torch.no_grad():
        outputs = model.get_output_embeddings().weight
        outputs[list(ids)] = 0
        outputs[TOKENIZER_SIZE:] = 0
    return model


def _perturb(model: Any, seed: int) -> None:
    import torch

    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "vision_tower" not in name and weight.ndim > 1:
                weight.add_(0.06 * weight.std() * torch.randn(weight.shape, generator=draws))
