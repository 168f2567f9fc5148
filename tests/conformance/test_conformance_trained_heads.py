"""A head that is trained for a Qwen drafts for it on every backend."""

from dataclasses import replace

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec_train.distillation.training import train
from mmspec_train.heads.train_heads import new_trainee
from mmspec_train.settings import Budget, HeadMethodSettings, HeadShape
from support.conformance_cases import plainly
from support.teacher_data import answered_by, quiet_log

GAMMA, TOKENS = 3, 16


def accepted(data, head, backend):
    """The share of right tokens that a head drafts, to the questions that it learned."""
    right = count = 0
    with load(data.teacher.directory, head, backend=backend) as engine:
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


def test_a_head_learns_to_draft_for_a_qwen(backends, tmp_path):
    """What it drafts changes no answer, and it is right far more often than before training."""
    settings = {"samples": 2, "answer_tokens": TOKENS, "held_out": 1, "batch": 500}
    data = answered_by("qwen3_vl", tmp_path, **settings)
    own = replace(data, corpora=(data.corpora[0],) * 2)
    method = HeadMethodSettings(rollout=GAMMA, gamma=GAMMA, rate=5e-2, every=1000, schedule="mixed")
    trainee = new_trainee("eagle3", HeadShape(GAMMA, layers=1), method, own)
    trainee.save(tmp_path / "untrained")
    with quiet_log(tmp_path) as log:
        train(trainee, Budget(steps=60), tmp_path / "trained", log)
    for backend in backends:
        before, after = (
            accepted(data, tmp_path / name, backend) for name in ("untrained", "trained")
        )
        assert after > before + 0.2
