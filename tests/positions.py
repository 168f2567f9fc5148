"""Drafters by M-RoPE and by token index: tokens a round on a model trained here.

    PYTHONPATH=tests python tests/positions.py mtp|dspark FOLDER

trains a Qwen3.5 (mtp) or a Qwen3-VL (dspark) of 2 million parameters on the synthetic world for 8
CPU minutes, then its drafter with each kind of positions: Qwen3.5's own for 3 minutes, a DSpark of
one layer and blocks of 8 for 1,200 steps. Both run with each kind on held-out questions about one,
two and five images and the eight frames of a clip. FOLDER keeps the checkpoints. All texts are
compared with plain decoding's.
"""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from time import process_time

import click
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax
from transformers import AutoModelForImageTextToText
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import mmspec
import mmspec_world
from mmspec.checkpoints.config import read_config
from mmspec.families.decoder import describe_axes
from support.factory_layouts import byte_level
from support.factory_qwen import IMAGE_ID, SPECIAL_TOKENS, STOP_ID, tiny_qwen
from support.mtp_drafter import MtpDrafter

TASKS = ["general", "detail", "caption", "conversation", "text", "spot", "vist", "chart", "clip8"]
ASKED = {1: ["general", "detail", "caption", "text"], 2: ["spot"], 5: ["vist"], 8: ["clip8"]}
KINDS = "mrope", "index"
CELLS, CELL, VOCABULARY = 16, 24, 768
SIZES = {"hidden_size": 160, "intermediate_size": 448, "head_dim": 48, "vocab_size": VOCABULARY}
SIZES |= {"vision_hidden_size": 128, "vision_heads": 4, "patch": CELL // 2}
SIZES |= {"least": CELL**2, "largest": CELLS * CELL**2, "tied": True, "positions": 2048}
OWN = {
    "mtp": ("qwen3_5", {"sections": (4, 4, 4), "key_dim": 32, "value_dim": 48}),
    "dspark": ("qwen3_vl", {"sections": (8, 8, 8), "layers": 4}),
}
"""The target's `model_type` and further sizes by drafter."""
DISTILL = "-m mmspec_cli train distill --kind dspark --layers 1 --slots 8 --gamma 8 --threads 1"
DISTILL += " --markov-rank 64 --samples 1024 --held-out 6 --anchors 24 --batch 2048 --steps 1200"
DISTILL += "".join(f" --task {task}" for task in TASKS)
GAMMA = {"none": 1, "mtp": 3, "dspark": 5}
LONGEST, ROWS, ROLLOUT, SAMPLES = 280, 6, 3, 32


def write_target(path, drafter):
    """A random model with a tokenizer of the world's texts."""
    model, sizes = OWN[drafter]
    tiny_qwen(model, path, **SIZES, **sizes)
    samples = (mmspec_world.sample(t, n, split="train") for n in range(400) for t in TASKS)
    turns = [turn for each in samples for turn in each.turns]
    texts = [text for turn in turns for text in (turn.question, turn.answer)]
    byte_level(SPECIAL_TOKENS, VOCABULARY, texts).save(str(path / "tokenizer.json"))


class Batches:
    """Conversations of the world as ids, learnt places, mask and what the model needs of images."""

    def __init__(self, path):
        self.tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        settings = json.loads((path / "preprocessor_config.json").read_text())
        kinds = "processor_class", "image_processor_type"
        sizes = {name: value for name, value in settings.items() if name not in kinds}
        self.images = Qwen2VLImageProcessorPil(**sizes)

    def ids(self, text):
        return self.tokenizer.encode(text).ids

    def conversation(self, sample):
        _, start, end, before, after, *_ = range(len(SPECIAL_TOKENS))
        ids, learnt = [], []
        for turn in sample.turns:
            question = turn.question.replace("<image>\n", "").replace("<image>", "")
            asked = [start, *self.ids("user\n")]
            asked += turn.images * [before, *[IMAGE_ID] * CELLS, after]
            asked += [*self.ids(question), end, *self.ids("\n"), start, *self.ids("assistant\n")]
            answer, line = [*self.ids(turn.answer), STOP_ID], self.ids("\n")
            ids += asked + answer + line
            learnt += [0] * len(asked) + [1] * len(answer) + [0] * len(line)
        return ids, learnt, sample.images

    def __getitem__(self, seed):
        draws, rows = random.Random(seed), []
        while len(rows) < ROWS:
            task, number = draws.choice(TASKS), draws.randrange(10**9)
            row = self.conversation(mmspec_world.sample(task, number, split="train"))
            rows += [row] if len(row[0]) <= LONGEST else []
        ids, learnt, mask = (torch.zeros(ROWS, LONGEST, dtype=torch.int64) for _ in range(3))
        for row, (tokens, places, _) in enumerate(rows):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
            learnt[row, : len(tokens)] = torch.tensor(places)
        images = [image.convert("RGB") for *_, each in rows for image in each]
        inputs = dict(self.images(images, return_tensors="pt")) if images else {}
        inputs |= {"mm_token_type_ids": (ids == IMAGE_ID).int()} if images else {}
        return ids, learnt > 0, {"input_ids": ids, "attention_mask": mask, **inputs}


def fit(module, minutes, loss):
    """Adam for so many CPU minutes on the loss of a step's number."""
    optimizer = torch.optim.AdamW(module.parameters(), betas=(0.9, 0.95), weight_decay=0.01)
    begin, step = process_time(), 0
    while (share := (process_time() - begin) / 60 / minutes) < 1:
        optimizer.param_groups[0]["lr"] = 2e-3 * min(1, (step + 1) / 50) * (1 - 0.97 * share)
        optimizer.zero_grad()
        loss(step).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        step += 1


def train_target(path, drafter):
    write_target(path, drafter)
    model, batches = AutoModelForImageTextToText.from_pretrained(path).train(), Batches(path)

    def loss(step):
        ids, learnt, inputs = batches[step]
        logits = model(**inputs).logits[:, :-1]
        return cross_entropy(logits[learnt[:, 1:]], ids[:, 1:][learnt[:, 1:]])

    fit(model, 8, loss)
    model.save_pretrained(path)


def train_mtp(path, kind):
    torch.manual_seed(1)
    model, batches = AutoModelForImageTextToText.from_pretrained(path).eval(), Batches(path)
    drafter, caught = MtpDrafter(path), {}
    for weight in drafter.layers.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.02)
    hook = model.model.language_model.register_forward_pre_hook
    hook(lambda _module, _given, named: caught.update(named), with_kwargs=True)

    def loss(step):
        _, learnt, inputs = batches[10**6 + step]
        with torch.no_grad():
            read = model.model(**inputs).last_hidden_state
            p = softmax(model.lm_head(read), -1)[:, 1:-1]
        counted = torch.arange(LONGEST).expand(3, ROWS, -1)
        turned = caught["position_ids"][-3:] if kind == "mrope" else counted
        states, total = read[:, :-1], 0.0
        for depth in range(ROLLOUT):
            features = drafter(caught["inputs_embeds"][:, 1:], states, turned[..., :-1])
            q, places = log_softmax(model.lm_head(features)[:, :-1], -1), learnt[:, 2:].clone()
            places[:, :depth] = False
            each = kl_div(q[places], p[places], reduction="none").sum(-1).mean()
            total = total + 0.8**depth * each
            states = torch.cat((read[:, :1], features[:, :-1]), 1)
        return total

    fit(drafter, 3, loss)
    tensors = {f"mtp.{name}": weight.detach() for name, weight in drafter.state_dict().items()}
    for run in KINDS:
        copy = path.parent / f"{kind}-{run}"
        shutil.copytree(path, copy)
        save_file(load_file(path / "model.safetensors") | tensors, copy / "model.safetensors")
        config = json.loads((copy / "config.json").read_text())
        config["text_config"]["mtp_positions"] = run
        (copy / "config.json").write_text(json.dumps(config))


def train_dspark(path, kind):
    head, data = path.parent / kind, path.parent / "answers"
    places = ["--target", path, "--rotary", kind, "--answers-dir", data, "--out", head]
    subprocess.run([sys.executable, *DISTILL.split(), *places], check=True)
    config = json.loads((head / "config.json").read_text())
    turns = describe_axes(read_config(path).text.rotary_axes)
    for run in KINDS:
        copy = path.parent / f"{kind}-{run}"
        shutil.copytree(head, copy)
        config["rope_scaling"] = turns if run == "mrope" else None
        (copy / "config.json").write_text(json.dumps(config))


def answers(path, draft, drafting, count):
    """Texts, tokens and rounds of held-out questions about `count` images."""
    found = []
    with mmspec.load(str(path), str(draft), backend="torch", threads=1) as engine:
        for number in range(SAMPLES):
            task = ASKED[count][number % len(ASKED[count])]
            sample = mmspec_world.sample(task, number, split="held-out")
            question = sample.turns[0].question.replace("<image>\n", "").replace("<image>", "")
            images = [mmspec.picture_from(image.convert("RGB")) for image in sample.images[:count]]
            options = mmspec.Options(
                drafting, gamma=GAMMA[drafting], max_new_tokens=80, exact="off"
            )
            answer = engine.chat(options).reply(question, images)
            found.append((answer.text, answer.statistics.tokens, answer.statistics.rounds))
    return found


def main(drafter, folder):
    torch.set_num_threads(1)
    target = folder / "target"
    if not target.exists():
        train_target(target, drafter)
    for kind in KINDS:
        if not (folder / f"{kind}-index").exists():
            (train_mtp if drafter == "mtp" else train_dspark)(target, kind)
    draws = np.random.default_rng(0)
    for count in ASKED:
        plain = answers(target, "auto", "none", count)
        for kind, run in ((kind, run) for kind in KINDS for run in KINDS):
            both = folder / f"{kind}-{run}"
            pair = (both, "auto") if drafter == "mtp" else (target, both)
            drafted = answers(*pair, drafter, count)
            same = sum(one[0] == two[0] for one, two in zip(plain, drafted, strict=True))
            figures = np.array([each[1:] for each in drafted])
            chosen = figures[draws.integers(0, SAMPLES, (1000, SAMPLES))].sum(1)
            low, high = np.percentile(chosen[:, 0] / chosen[:, 1], (2.5, 97.5))
            mean = figures[:, 0].sum() / figures[:, 1].sum()
            click.echo(
                f"{count} images, learnt by {kind}, run by {run}: {mean:.2f} tokens a round "
                f"[{low:.2f}..{high:.2f}], {same} of {SAMPLES} texts are the same"
            )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
