"""mlx-lm as a peer: it answers what this project answers to text, and refuses images."""

import pytest

from mmspec.bench.peers.ours import Ours
from mmspec.bench.peers.serve import Clock
from mmspec.bench.peers.wire import Question, Setup
from mmspec.errors import UsageError
from mmspec_mlx.peer_mlx_lm import MlxLmPeer

QUESTION = Question([{"text": "what is this?"}], 12)


def setup(pair_paths, drafts, **options):
    model, draft = map(str, pair_paths)
    return Setup(model, draft if drafts else None, "cpu", "float32", options)


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafted"])
def test_mlx_lm_answers_as_this_project_does(pair_paths, drafts):
    ours = Ours(setup(pair_paths, True, backend="mlx", drafting="T", gamma=3))
    expected, _ = ours.answer(QUESTION, Clock())
    peer = MlxLmPeer(setup(pair_paths, drafts, **({"draft_tokens": 3} if drafts else {})))
    clock = Clock()
    said, forwards = peer.answer(QUESTION, clock)
    assert said == expected
    assert forwards <= clock.events[-1][0]
    assert (forwards < clock.events[-1][0]) == drafts
    assert peer.describe()["dtype"] == "float32"


def test_an_image_is_refused(pair_paths):
    with pytest.raises(UsageError, match="sees no images"):
        MlxLmPeer(setup(pair_paths, False)).answer(
            Question([{"image": "a.png"}, {"text": "?"}], 2), Clock()
        )
