"""Answers about pairs of images, stories, videos and moving scenes, and the facts they state."""

from itertools import pairwise

from mmspec_world.facts import Fact
from mmspec_world.sequences import MovingScene, MovingThing, Pair, Story
from mmspec_world.wording import Narrator, an, event_facts, join_sentences, join_with_and, sentence

CLOSING_CHANCE = {"difference": 0.3, "edit": 0.5}
"""How often the text of each kind ends in a remark on what stays the same."""


Answer = tuple[str, tuple[Fact, ...]]
"""A text, and the facts that it states."""


def pair_answer(kind: str, rng: Narrator, pair: Pair) -> Answer:
    """Describe both images, then name the difference, or say how to edit the first into the second.

    kind: "difference" or "edit".
    """
    facts = event_facts("difference", pair.kind, before=pair.before, after=pair.after)
    change = _change(rng, pair, kind)
    closing = rng.say_sentence(f"pair.{kind}_closing", b=pair.scenes[0].background)
    opening = rng.maybe_sentence(0.2, "pair.opening") if kind == "difference" else ""
    parts = opening, describe_both(rng, pair), _comparison(rng, pair), change
    return join_sentences(*parts, closing if rng.random() < CLOSING_CHANCE[kind] else ""), facts


def change_text(kind: str, rng: Narrator, pair: Pair) -> str:
    """Say what a pair's images have in common, then name the one change between them."""
    change = _change(rng, pair, kind)
    return f"{_comparison(rng, pair)} {change}"


def describe_both(rng: Narrator, pair: Pair) -> str:
    """Describe the first image, then the second."""
    first, second = (rng.things_at_places(scene.things) for scene in pair.scenes)
    return rng.say_sentence("pair.both", first=first, second=second)


def _comparison(rng: Narrator, pair: Pair) -> str:
    """Name the things that stay, then those that only one image shows."""
    first, second = pair.scenes
    same = [f"the {thing.name}" for thing in first.things if thing in second.things]
    verb = "stay" if len(same) > 1 else "stays"
    stay = sentence(f"{join_with_and(same)} {verb} the same") if same else ""
    alone = [
        rng.say_sentence("pair.only", which=which, thing=rng.thing_at_place(thing))
        for which, thing in (("first", pair.before), ("second", pair.after))
        if thing
    ]
    return join_sentences(stay, *alone)


def _change(rng: Narrator, pair: Pair, kind: str) -> str:
    before, after = pair.before or pair.after, pair.after or pair.before
    assert before is not None
    assert after is not None
    phrase = f"{kind}.{'change' if pair.before and pair.after else pair.kind}"
    slots = {"before": before.name, "a_after": an(after.name), "b": pair.scenes[0].background}
    at_here, at_there = rng.place_phrase(before.place), rng.place_phrase(after.place)
    return rng.say_sentence(phrase, **slots, at_here=at_here, at_there=at_there)


def frame_caption(rng: Narrator, story: Story, frame: int) -> str:
    """Return the caption of a frame of a story; not for the last frame."""
    hero = story.heroes[frame]
    rests = frame and hero.place == story.heroes[frame - 1].place
    phrase = "rest" if rests else "goes" if frame else "start"
    at = rng.place_phrase(hero.place)
    place = at.partition(" the ")[2]
    return rng.say_sentence(f"story.{phrase}", n=story.name, t=hero.name, at=at, place=place)


def ending_answer(rng: Narrator, story: Story) -> Answer:
    """Say the hero's last place and the event of the last frame of a story."""
    hero, name = story.heroes[-1], story.name
    move = rng.say_sentence("story.last", n=name, place=rng.place_name(hero.place))
    event = _ending(rng, story, name)
    review = rng.maybe_sentence(0.4, "story.review")
    text = join_sentences(review, move, event, rng.maybe_sentence(0.6, "story.moral"))
    return text, (*event_facts("story", "ending", last=hero), *_ending_facts(story))


def _ending(rng: Narrator, story: Story, name: str) -> str:
    hero = story.heroes[-1]
    friend = an(story.friend.name) if story.friend else ""
    phrase = f"event.{story.ending}"
    return rng.say_sentence(phrase, n=name, now=hero.colour, shape=hero.shape, friend=friend)


def _ending_facts(story: Story) -> tuple[Fact, ...]:
    hero, friend = story.heroes[-1], story.friend
    return event_facts("story", f"ending_{story.ending}", last=hero, friend=friend)


def video_answer(rng: Narrator, story: Story) -> Answer:
    """Say what happens in a video, place by place, and how it ends."""
    first, *_, last = story.heroes
    heroes = story.heroes[:-1]
    moves = [b for a, b in pairwise(heroes) if a.place != b.place]
    middle = [f"the {rng.place_name(hero.place)}" for hero in moves]
    start = rng.say_sentence("video.start", thing=an(first.name), at=rng.place_phrase(first.place))
    phrase = "video.path" if middle else "video.rest"
    end = rng.place_phrase(last.place)
    path = rng.say_sentence(phrase, middle=" and then ".join(middle), at=end)
    event = _ending(rng, story, f"the {last.shape}")
    ground = rng.say_sentence("video.background", b=story.scenes[0].background)
    facts = *event_facts("story", "video", first=first, last=last), *_ending_facts(story)
    return join_sentences(start, path, event, ground if rng.random() < 0.4 else ""), facts


VERBS = {"enter": "appears", "leave": "is gone", "move": "moves"}
ORDER = ("clip.first", "clip.next", "clip.last")


def start_text(rng: Narrator, clip: MovingScene) -> str:
    """Return a sentence about the first frame."""
    return rng.say_sentence("clip.start", things=rng.things_at_places(clip.scenes[0].things))


def event_text(rng: Narrator, moving: MovingThing) -> str:
    """Return what happens to a thing, without a capital and a full stop."""
    first, last = moving.first, moving.last
    slots = {"thing": first.name, "a_thing": an(first.name), "at": rng.place_phrase(first.place)}
    start, end = rng.place_name(first.place), rng.place_name(last.place)
    return rng.say(f"clip.{moving.event}", **slots, start=start, end=end)


def clip_answer(rng: Narrator, clip: MovingScene) -> Answer:
    """Describe the first frame, then the events in order; the first one is a fact too."""
    events = [
        rng.say_sentence(order, event=event_text(rng, moving))
        for order, moving in zip(ORDER, clip.events, strict=True)
    ]
    ground = rng.say_sentence("video.background", b=clip.background)
    text = join_sentences(start_text(rng, clip), *events, ground if rng.random() < 0.3 else "")
    first = VERBS[clip.events[0].event]
    order = Fact("story", first, tuple(VERBS.values()), (r"first, [^.]*?{}",))
    return text, (*(fact for moving in clip.events for fact in moving_facts(moving)), order)


def moving_facts(moving: MovingThing) -> tuple[Fact, ...]:
    """Return the facts of one event: the thing and its places."""
    return event_facts("story", f"clip_{moving.event}", first=moving.first, last=moving.last)
