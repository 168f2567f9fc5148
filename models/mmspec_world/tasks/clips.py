"""Tasks about clips: moving scenes of four, eight and sixteen frames."""

import random
from collections.abc import Callable
from functools import partial

from mmspec_world.answers import clip_texts
from mmspec_world.answers.answers import join_sentences
from mmspec_world.answers.phrasing import say, sentence
from mmspec_world.facts import Turn
from mmspec_world.scenes.moving_scenes import EVENTS, MovingScene, moving_scene
from mmspec_world.split import Split, draw_in_split
from mmspec_world.tasks import prompts
from mmspec_world.tasks.script import Script


def clip_script(frames: int, rng: random.Random, split: Split) -> Script:
    """Ask for a description of a clip, or for what enters, leaves or moves in it."""
    clip = draw_in_split(split, partial(moving_scene, frames=frames), rng)
    ask = _description if rng.random() < 0.5 else _event
    return Script(clip.frames, (ask(rng, clip),), (clip.key,))


def _description(rng: random.Random, clip: MovingScene) -> Turn:
    text, facts = clip_texts.clip_text(rng, clip), clip_texts.clip_facts(clip)
    return Turn(rng.choice(prompts.VIDEO), text, facts, len(clip.frames))


def _event(rng: random.Random, clip: MovingScene) -> Turn:
    event = rng.choice(EVENTS)
    track = next(track for track in clip.tracks if track.event == event)
    question = say(rng, f"clip.{event}_question")
    clause = sentence(clip_texts.event_text(rng, track))
    text = join_sentences(clip_texts.start_text(rng, clip), clause)
    return Turn(question, text, clip_texts.event_facts(track), len(clip.frames))


CLIP_SCRIPTS: dict[str, Callable[[random.Random, Split], Script]] = {
    f"clip{frames}": partial(clip_script, frames) for frames in (4, 8, 16)
}
"""The scripts by task; the bundled pair was not trained on them."""
