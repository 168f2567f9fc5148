"""Training heads: they compute what decoding computes, and learn what the target says."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec import structs
from safetensors.torch import load_file

from mmspec.decoding.draft import Plan
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.ground import errors
from mmspec_torch.backend import TorchBackend
from mmspec_train.data.batch import gather_columns
from mmspec_train.distillation.objective import DraftStarts, all_starts, divergence, draw_starts
from mmspec_train.distillation.training import train
from mmspec_train.heads.train_heads import HeadTrainee, head_config, new_head, new_trainee
from mmspec_train.run.log import Log
from mmspec_train.settings import DIVERGENCES, HEADS, Budget, HeadMethodSettings, HeadShape
from support.sequence_helpers import segment_of
from support.teacher_data import Killed, held_out_batch, kill_after_step_4, quiet_log

DRAWN = Sampling(temperature=1.0)


def random_head(config, seed=0):
    """A head whose every tensor is random, so that nothing is left out by being zero."""
    head = new_head(config, seed)
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in head.parameters():
            spread = 0.1 if weight.ndim == 1 else weight.shape[-1] ** -0.5
            weight.add_(spread * torch.randn(weight.shape, generator=draws))
    return head


SHAPES = [(kind, HeadShape(3, 3)) for kind in HEADS] + [
    ("medusa", HeadShape(3, vision="mean")),
    ("hydra", HeadShape(3)),
    ("eagle3", HeadShape(norms="3", draft_vocabulary=100)),
    ("dflash", HeadShape(3, layers=1, image_context=False)),
    ("dspark", HeadShape(4, layers=2, markov_rank=8)),
    ("dspark", HeadShape(3, layers=1, markov_rank=0)),
    ("dspark", HeadShape(3, layers=1, rotary="index")),
]


FAMILIES = ("llava", "qwen3", "qwen2_5_vl", "qwen3_vl")
CASES = [(FAMILIES[n % 4], *shape) for n, shape in enumerate(SHAPES)]
CASES += [(name, kind, HeadShape(3, 3)) for name in FAMILIES[2:] for kind in ("eagle3", "dspark")]
"""A family for every shape; both with images of many shapes where positions turn with them."""


def test_what_cannot_be_trained_is_refused_by_name(data):
    method = HeadMethodSettings(loss="ce")
    with pytest.raises(errors.UsageError, match="leave out --draft-vocabulary"):
        new_trainee("eagle3", HeadShape(draft_vocabulary=60), method, data)


@pytest.mark.parametrize(("family_data", "kind", "shape"), CASES, indirect=["family_data"])
def test_a_trained_head_drafts_as_the_decoding_one(family_data, tmp_path, kind, shape):
    data = family_data
    config = head_config(kind, data.teacher.config, shape)
    head, drafted = random_head(replace(config, dtype="float32")), slice(None)
    data.teacher.captured_layers = config.captured_layers(data.teacher.config)
    trainee = HeadTrainee(head, data, HeadMethodSettings())
    head.begin(data.teacher, range(5, 320, 3))
    if kind == "eagle3":
        drafted = head.ids
    trainee.save(tmp_path / kind)
    wanted = 2 if data.teacher.config.vision else 0
    record, _ = held_out_batch(data, lambda record: record.images >= wanted)
    batch = data.teacher.read(data.held_out.batch([structs.replace(record, place=None)]))
    loaded = TorchBackend().load_head(tmp_path / kind, data.teacher.model)
    starts = all_starts(batch, 1)
    for column in starts.columns[0, [0, 1, -1]].tolist():
        ids, q = decoded_draft(data, record, batch, loaded, column)
        ours = trained_probabilities(data, batch, head, column, ids)
        torch.testing.assert_close(ours, q[:, drafted], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(q[:, drafted].sum(-1), torch.ones(3))


def decoded_draft(data, record, batch, loaded, column):
    """What the decoding drafter draws after a column, everything fed anew, and from what."""
    model = data.teacher.model
    pixels = data.held_out.pixels([record])
    features = [model.encode(image) for image in pixels]
    seen = [f for f, (_, end) in zip(features, batch.images[0], strict=True) if end <= column + 1]
    target = model.open_target(DRAWN)
    drafter = loaded.open_drafter(target, DRAWN)
    segment = segment_of(batch.ids[0, : column + 1].tolist(), seen, data.teacher.image_id)
    target.extend(segment)
    drafter.extend([segment])
    rows, own = [], drafter._forwards._sampler

    def tokens(logits, keys):
        rows.extend(logits)
        return own.tokens(logits, keys)

    drafter._forwards._sampler = SimpleNamespace(xp=own.xp, tokens=tokens)
    ids = drafter.draft(Plan(3), Noise(1, target.length)).ids
    return ids, torch.stack(rows).softmax(-1)


def trained_probabilities(data, batch, head, column, ids):
    """What the trained head says at each depth [3, V] when it is fed certain tokens."""
    more = {
        name: F.pad(getattr(batch, name), (0, 0, 0, 3))
        for name in ("states", "embeddings", "layer_outputs")
    }
    more["embeddings"][0, column + 1 : column + 4] = data.teacher.embed(ids)
    more["positions"] = F.pad(batch.positions, (0, 3))
    more["ids"], more["targets"] = F.pad(batch.ids, (0, 3)), F.pad(batch.targets, (0, 3))
    more["ids"][0, column + 1 : column + 4] = ids
    starts = DraftStarts(torch.tensor([[column]]), torch.ones(3, 1, 1, dtype=torch.bool))
    with torch.no_grad():
        features = head(replace(batch, **more), starts)
    return head.log_probabilities(features[:, 0, 0]).exp()


def test_few_starts_have_the_loss_of_these_starts_alone(data):
    """An oracle: the mean of the losses of single guesses, over draws of every start."""
    batch = data.teacher.read(next(data.batches("all").batches(0)))
    whole = all_starts(batch, 2)
    drawn = draw_starts(whole, 3)
    few = drawn.restrict(batch)
    assert drawn.alive[0].sum(1).max() == 3
    assert 0 < few.has_loss.sum() < batch.has_loss.sum()
    head = new_trainee("msd", HeadShape(), HeadMethodSettings(), data).module
    features = torch.randn(2, *drawn.columns.shape, head.config.hidden_size)
    losses = (head.loss(features, b, drawn, HeadMethodSettings()) for b in (few, batch))
    torch.testing.assert_close(*losses)


def test_divergences_are_what_they_are_called():
    draws = np.random.default_rng(0)
    p, q = draws.dirichlet(np.ones(7), size=(2, 4))
    targets = np.array([0, 3, 6, 2])
    expected = {"kl": (p * np.log(p / q)).sum(-1), "ce": -np.log(q[np.arange(4), targets])}
    for name in DIVERGENCES:
        logs = (torch.tensor(shares).log() for shares in (p, q))
        ours = divergence(name, *logs, torch.tensor(targets))
        np.testing.assert_allclose(ours.numpy(), expected[name], rtol=1e-6)


def test_a_loss_weighs_depths_and_counts_only_what_can_be_judged(data):
    _, batch = held_out_batch(data)
    starts = all_starts(batch, 3)
    wanted = torch.stack([gather_columns(batch.states, columns) for columns in starts.after])
    head = new_trainee("msd", HeadShape(), HeadMethodSettings(), data).module
    both = HeadMethodSettings(feature_weight=1.0, decay=0.5)
    assert head.loss(wanted, batch, starts, both).item() == pytest.approx(0, abs=1e-5)
    wrong = wanted + 4 * starts.alive.unsqueeze(-1)
    only = replace(both, token_weight=0.0)
    assert head.loss(wrong, batch, starts, only).item() == pytest.approx(3.5, abs=1e-4)
    first = wanted.clone()
    first[0] += 4
    shared = (1 + 0.5 + 0.25) ** -1
    assert head.loss(first, batch, starts, only).item() == pytest.approx(3.5 * shared)
    astray = wanted + 4 * ~starts.alive.unsqueeze(-1)
    assert head.loss(astray, batch, starts, only).item() == pytest.approx(0, abs=1e-5)


METHOD = HeadMethodSettings(rollout=2, gamma=2, noise=0.2, schedule="msd", every=2)


def trained(data, out, kind="msd", rate=0.5):
    trainee = new_trainee(kind, HeadShape(layers=1), replace(METHOD, rate=rate), data)
    with quiet_log(out) as log:
        train(trainee, Budget(steps=6), out, log)
    return load_file(out / "model.safetensors")


def test_an_interrupted_head_ends_at_the_same_weights(data, tmp_path, monkeypatch):
    """And its directory is for it alone."""
    whole, cut = trained(data, tmp_path / "whole"), tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr(Log, "show", kill_after_step_4)
        with pytest.raises(Killed):
            trained(data, cut)
    with pytest.raises(errors.UsageError, match=r"--rate is 0\.5, but is now 1\.0: give .*--out"):
        trained(data, cut, rate=1.0)
    with pytest.raises(errors.UsageError, match=r"head\.\w+ is .*, but is now .*: give .*--out"):
        trained(data, cut, "eagle")
    before = (cut / "log.csv").read_text().splitlines()
    again = trained(data, cut)
    after = (cut / "log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in after if ",cut," in line] == [*"123456"]
    assert after[:3] == before[:3], "it goes on after step 2, where it was saved last"
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert not (cut / "training").exists()
    with pytest.raises(errors.UsageError, match="holds a model: give another --out"):
        trained(data, cut)


def test_the_vocabulary_of_an_eagle3_head_is_that_of_the_answers(data, tmp_path):
    method = HeadMethodSettings(rollout=3, gamma=3, every=100)
    shape = HeadShape(norms="3.1", draft_vocabulary=60)
    with quiet_log(tmp_path) as log:
        train(new_trainee("eagle3", shape, method, data), Budget(steps=2), tmp_path, log)
    stored = load_file(tmp_path / "model.safetensors")
    ids = (torch.arange(60) + stored["d2t"]).tolist()
    answers = [a for record in data.batches("all").records() for a in record.answers]
    counts = Counter(token for answer in answers for token in answer)
    others = [count for token, count in counts.items() if token not in ids]
    assert min(counts[token] for token in ids) >= max(others, default=0)
    assert stored["t2d"].nonzero().flatten().tolist() == ids
    assert TorchBackend().load_head(tmp_path, data.teacher.model).config.eagle3.fc_norm


def test_every_slot_of_a_head_is_trained(data, tmp_path):
    """And an evaluation computes the logits of one depth at a time."""
    method = HeadMethodSettings(rollout=2, gamma=4, every=100)
    trainee = new_trainee("medusa", HeadShape(4), method, data)
    with quiet_log(tmp_path) as log:
        train(trainee, Budget(steps=2), tmp_path, log)
    weights = load_file(tmp_path / "model.safetensors")
    assert all(weights[f"heads.{slot}.linear.weight"].any() for slot in range(4))
    sizes, real = [], trainee.module.log_probabilities

    def recorded(features):
        sizes.append(features.shape[:-1])
        return real(features)

    trainee.module.log_probabilities = recorded
    _, starts, guesses = trainee.guesses(next(data.held_out.once()))
    assert sizes == [starts.columns.shape] * 4
    assert guesses.shape == starts.alive.shape


SHAPE = HeadShape(3, layers=1, markov_rank=8)


def test_anchors_are_drawn_from_what_is_learned(data):
    _, batch = held_out_batch(data)
    every = all_starts(batch, 4)
    drawn = [draw_starts(every, 5) for _ in range(3)]
    for starts in drawn:
        columns = starts.columns[0]
        assert torch.equal(columns, columns.unique()), "in order, none twice"
        places = torch.searchsorted(every.columns[0], columns)
        assert torch.equal(starts.alive[:, 0], every.alive[:, 0, places])
    assert len({tuple(starts.columns[0].tolist()) for starts in drawn}) > 1
    assert torch.equal(draw_starts(every, 10**6).columns, every.columns)


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_the_loss_is_the_published_one(data, kind):
    """Row by row in numpy: weights decay^k divided by their sum over all live guesses."""
    _, batch = held_out_batch(data)
    batch, starts = data.teacher.read(batch), draw_starts(all_starts(batch, 3), 6)
    matrix, method = data.teacher.output_matrix, HeadMethodSettings()
    features = torch.randn(3, 1, 6, matrix.shape[1], generator=torch.Generator().manual_seed(1))
    odds, head = kind == "dspark", new_trainee(kind, replace(SHAPE, markov_rank=0), method, data)
    head.module.confidence = lambda live: live[:, 0]
    ours = head.module.loss(features, batch, starts, method)
    total = weights = 0.0
    for depth, _, start in starts.alive.nonzero().tolist():
        column = int(starts.columns[0, start]) + depth
        feature = features[depth, 0, start].double()
        q = F.linear(feature, matrix.double()).softmax(-1)
        p = F.linear(batch.states[0, column].double(), matrix.double()).softmax(-1)
        surprise = -q[batch.targets[0, column]].log()
        loss = surprise if kind == "dflash" else 0.1 * surprise + 0.9 * (p - q).abs().sum()
        if odds:
            accepted, sure = torch.minimum(p, q).sum(), feature[0].sigmoid()
            loss = loss - accepted * sure.log() - (1 - accepted) * (1 - sure).log()
        total, weights = total + 0.8**depth * float(loss), weights + 0.8**depth
    assert ours.item() == pytest.approx(total / weights, rel=1e-4)
