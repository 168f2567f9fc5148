"""Heads that are trained for a Qwen draft for it on every backend."""

from dataclasses import replace
from functools import cache

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support.conformance_cases import plainly

GAMMA, TOKENS = 3, 16
STEPS = {"medusa": 800, "hydra": 800, "flash": 300}
"""Steps of training by kind, if not 160."""
KINDS = ("dspark", "eagle", "msd", "medusa", "hydra", "flash", "dflash")
SLOW = [("qwen2_5_vl", "eagle3"), ("qwen3", "eagle3")]
SLOW += [("qwen3_vl", kind) for kind in KINDS]
CASES = [("qwen3_vl", "eagle3"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


@pytest.fixture(scope="session")
def heads(tmp_path_factory):
    """Function that returns a teacher's data, and a head before and after training."""
    from mmspec_train.distillation.training import train
    from mmspec_train.heads.train_heads import new_trainee
    from mmspec_train.settings import Budget, HeadMethodSettings, HeadShape
    from support.teacher_data import answered_by, quiet_log

    @cache
    def answered(family):
        folder = tmp_path_factory.mktemp(family)
        return answered_by(family, folder, samples=3, answer_tokens=TOKENS, held_out=1, batch=2000)

    @cache
    def trained(family, kind):
        data, folder = answered(family), tmp_path_factory.mktemp(kind)
        own = replace(data, corpora=(data.corpora[0],) * 2)
        method = HeadMethodSettings(
            rollout=GAMMA, gamma=GAMMA, rate=5e-3, every=1000, schedule="mixed"
        )
        trainee = new_trainee(kind, HeadShape(GAMMA, layers=1), method, own)
        trainee.save(folder / "untrained")
        with quiet_log(folder) as log:
            train(trainee, Budget(steps=STEPS.get(kind, 160)), folder / "trained", log)
        return data, folder

    return trained


def accepted(data, head, backend):
    """The share of right tokens that a head drafts, to the questions that it learned."""
    right = count = 0
    with load(str(data.teacher.directory), str(head), backend=backend) as engine:
        options = Options(engine.head.kind, gamma=GAMMA, max_new_tokens=TOKENS)
        for record in data.batches("all").records():
            drafted, plain = engine.chat(options), engine.chat(plainly(options))
            for turn in data.corpora[0].turns(record.number):
                answers = []
                for chat in (drafted, plain):
                    stream = chat.send(turn.question)
                    assert list(stream)
                    answers.append(stream.answer)
                assert answers[0].token_ids == answers[1].token_ids
                statistics = answers[0].statistics
                right, count = right + statistics.accepted, count + statistics.drafted
    return right / count


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_a_head_learns_to_draft_for_a_qwen(backends, heads, family, kind):
    """What it drafts changes no answer, and it is right far more often than before training."""
    data, folder = heads(family, kind)
    for backend in backends:
        before, after = (
            accepted(data, folder / name, backend) for name in ("untrained", "trained")
        )
        assert after > before + 0.2
