"""A Llama in numpy that computes a whole sequence in every forward: the network of extending.md."""

import numpy as np

from mmspec.decoding.formulas import softmax


def forward(text, tensors, x, positions, visible):
    """Hidden states [n, H], and keys and values [n, W], of rows x [n, H].

    text: the decoder's sizes.  tensors: by canonical names.  positions: [n], the rotary ones.
    visible: [n, n], the rows that each row attends to.
    """
    size, cache = text.head_dim, []
    angles = positions[:, None] / text.rope_theta ** (np.arange(0, size, 2) / size)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def norm(x, path):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + text.rms_norm_eps)
        return x / scale * tensors[f"{path}.weight"]

    def turn(heads):
        low, high = np.split(heads, 2, axis=-1)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    for number in range(text.num_hidden_layers):
        layer = f"language_model.layers.{number}"
        q, k, v, o = (tensors[f"{layer}.self_attn.{part}_proj.weight"].T for part in "qkvo")
        gate, up, down = (
            tensors[f"{layer}.mlp.{part}_proj.weight"].T for part in ("gate", "up", "down")
        )
        read = norm(x, f"{layer}.input_layernorm")
        q, k, v = ((read @ matrix).reshape(len(x), -1, size) for matrix in (q, k, v))
        q, k = turn(q), turn(k)
        cache += [k.reshape(len(x), -1), v.reshape(len(x), -1)]
        k, v = (heads.repeat(q.shape[1] // k.shape[1], axis=1) for heads in (k, v))
        scores = np.einsum("qhs,khs->hqk", q, k) / size**0.5
        shares = softmax(np, np.where(visible, scores, -np.inf))
        x = x + np.einsum("hqk,khs->qhs", shares, v).reshape(len(x), -1) @ o
        read = norm(x, f"{layer}.post_attention_layernorm")
        inner = read @ gate
        x = x + (inner / (1 + np.exp(-inner)) * (read @ up)) @ down
    return norm(x, "language_model.norm").astype(np.float32), np.concatenate(cache, axis=-1)
