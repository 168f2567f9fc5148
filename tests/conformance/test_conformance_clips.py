"""Clips on every backend: as several images for LLaVA."""

import pytest

from mmspec.chat.options import Options
from mmspec.prompt.film import open_clip
from support.films import film

BUDGET = 16


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return open_clip(film(tmp_path_factory.mktemp("films") / "a.mkv", 30))


@pytest.mark.parametrize("drafting", ["none", "ngram", "M", "MT", "P", "MTCP"])
def test_a_clip_is_its_frames_as_images(engine, clip, drafting):
    """Two turns, the second after undo, with a clip and an image in each."""
    options = Options(drafting=drafting, gamma=3, max_new_tokens=BUDGET)
    said = []
    for shown in ([clip], list(clip.frames)):
        chat = engine.chat(options)
        first = chat.reply("What is it?", shown)
        chat.reply("Is it?", [clip.frames[2]])
        chat.conversation.undo()
        said.append([first.token_ids, chat.reply("And now?", [*shown, clip.frames[1]]).token_ids])
        assert any(round_.drafted for round_ in first.rounds) == (drafting != "none")
    assert said[0] == said[1]
    plain = engine.chat(Options(drafting="none", max_new_tokens=BUDGET))
    assert plain.reply("What is it?", clip).token_ids == said[0][0]
