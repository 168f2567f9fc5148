"""The tasks: which pictures, which prompt, which answer."""

import random
from collections.abc import Callable
from dataclasses import replace

from mmspec.bench.world.answers import conclude, detailed, explain, short
from mmspec.bench.world.asks import Ask
from mmspec.bench.world.charts import bar_chart
from mmspec.bench.world.comparing import both, change_alone, difference, edit, pair_facts
from mmspec.bench.world.describing import Picture, describe
from mmspec.bench.world.doubts import doubt, puzzle
from mmspec.bench.world.drills import drill
from mmspec.bench.world.facts import Fact, Turn
from mmspec.bench.world.pairs import Pair, changed_pair
from mmspec.bench.world.palette import LETTERS
from mmspec.bench.world.phrasing import say
from mmspec.bench.world.scene import few_things, many_things, two_apart
from mmspec.bench.world.script import (
    Script,
    any_ask,
    asks_about,
    chart_ask,
    picture_of,
    scene_ask,
    word_ask,
)
from mmspec.bench.world.split import Split, within
from mmspec.bench.world.stories import Story, five_frames, four_frames
from mmspec.bench.world.talk import DETAILS, conversation, free_chat, swapped
from mmspec.bench.world.telling import caption, ending, ending_facts, film, film_facts
from mmspec.bench.world.words import written_word

IMAGE = "<image>"
REASONED = (
    "For the following question, provide a detailed explanation of your reasoning "
    "leading to the answer.\n"
)
SPOT = (
    f"Explain the disparities between the first and second image. {IMAGE} {IMAGE} Difference:",
    "What is the difference between the two images?",
    "Explain the disparities between the first and second image.",
    "What has changed from the first picture to the second?",
)
EDIT = (
    "Please provide instructions for editing the source image to match the target image. "
    f"Source Image: {IMAGE} Target Image: {IMAGE} Instruction:",
    "How do I edit the first image to get the second one?",
    "Please provide instructions for editing the first image to match the second image.",
)
PORORO = (
    "Given the progression of the story with the first few images, can you write a fitting end "
    "considering the last image?"
)
VIST = (
    "With the narratives paired with the initial images, how would you conclude the story "
    "using the last picture?"
)
CAPTION = "Provide a one-sentence caption for the provided image."
DETAILED_CAPTION = "Provide a detailed caption for the provided image."
VIDEO = (
    "Provide a detailed caption for the provided video.",
    "These are frames of a video. What happens in it?",
    "Describe the video from its frames.",
)
STEPS = "Answer the question with a chain of thought."
PICTURES = (few_things, few_things, many_things, bar_chart, written_word)


def chart(rng: random.Random, split: Split) -> Script:
    """Read a bar chart (ChartQA)."""
    return _question(rng, *chart_ask(rng, split))


def text(rng: random.Random, split: Split) -> Script:
    """Read a word (TextVQA)."""
    return _question(rng, *word_ask(rng, split))


def general(rng: random.Random, split: Split) -> Script:
    """Answer a question about a scene (VQAv2)."""
    return _question(rng, *scene_ask(rng, split))


def hallucination(rng: random.Random, split: Split) -> Script:
    """Say whether a thing is there, and what is (HallusionBench, POPE)."""
    return _question(rng, *picture_of(rng, split, two_apart, doubt))


def reasoning(rng: random.Random, split: Split) -> Script:
    """Solve a small puzzle about a scene (LLaVA-Bench)."""
    picture, ask = picture_of(rng, split, rng.choice((two_apart, many_things)), puzzle)
    return _one_turn(picture, ask.question, explain(rng, ask), (ask.fact,))


def detail(rng: random.Random, split: Split) -> Script:
    """Describe a picture at length (LLaVA-Bench)."""
    picture = _any_picture(rng, split)
    return _one_turn(picture, rng.choice(DETAILS), *detailed(rng, picture))


def captioning(rng: random.Random, split: Split) -> Script:
    """Caption a picture, in one sentence or in detail (COCO)."""
    picture = _any_picture(rng, split)
    if rng.random() < 0.6:
        return _one_turn(picture, CAPTION, *short(rng, picture))
    return _one_turn(picture, DETAILED_CAPTION, *detailed(rng, picture))


def science(rng: random.Random, split: Split) -> Script:
    """Choose among four answers after a chain of thought (ScienceQA)."""
    picture, ask = any_ask(rng, split)
    others = rng.sample([option for option in ask.fact.options if option != ask.fact.value], 3)
    choices = rng.sample([ask.fact.value, *others], 4)
    letter = LETTERS[choices.index(ask.fact.value)]
    listing = " ".join(f"({LETTERS[i]}) {choice}" for i, choice in enumerate(choices))
    question = f"Question: {ask.question}\nChoices: {listing}\n{STEPS}"
    final = say(
        rng, "[The answer is|So the answer is|Among the choices, the answer is] ({a}).", a=letter
    )
    fact = Fact(ask.fact.category, letter, tuple(LETTERS[:4]), (r"answer is \({}\)",))
    return _one_turn(picture, question, f"{explain(rng, ask)} {final}", (ask.fact, fact))


def spot(rng: random.Random, split: Split) -> Script:
    """Tell the difference between two images (Spot-the-Diff)."""
    pair = within(split, changed_pair, rng)
    return _of_pair(pair, _prompt(rng, SPOT), difference(rng, pair))


def edit_instruction(rng: random.Random, split: Split) -> Script:
    """Instruct how to edit one image into the other (IEdit)."""
    pair = within(split, changed_pair, rng)
    return _of_pair(pair, _prompt(rng, EDIT), edit(rng, pair))


def told(rng: random.Random, split: Split) -> Script:
    """Answer about pictures that are only described: nothing is drawn, and no sight asked for."""
    return rng.choice((_told_pair, _told_scene, _told_scene))(rng, split)


def _told_scene(rng: random.Random, split: Split) -> Script:
    scene = within(split, rng.choice((few_things, two_apart, many_things)), rng)
    asks = asks_about(rng, scene, 4)
    asks += [ask for ask in (doubt(rng, scene), puzzle(rng, scene)) if ask]
    rng.shuffle(asks)
    asks = [ask for ask in asks if ask.fact.category != "background"]
    turns = [Turn(ask.question, conclude(rng, ask), ()) for ask in asks]
    first = replace(turns[0], question=f"{describe(rng, scene)} {turns[0].question}")
    return Script((), (first, *turns[1:]), (scene.key,))


def _told_pair(rng: random.Random, split: Split) -> Script:
    pair = within(split, changed_pair, rng)
    wanted, prompts = rng.choice((("difference", SPOT), ("edit", EDIT)))
    question = f"{both(rng, pair)} {rng.choice(prompts[1:])}"
    return Script((), (Turn(question, change_alone(rng, pair, wanted), ()),), (pair.key,))


def pororo(rng: random.Random, split: Split) -> Script:
    """End a story of five captioned images (PororoSV)."""
    return _story_end(rng, split, PORORO)


def vist(rng: random.Random, split: Split) -> Script:
    """End a story of five captioned images (VIST)."""
    return _story_end(rng, split, VIST)


def video(rng: random.Random, split: Split) -> Script:
    """Tell what happens in four frames of a video."""
    story = within(split, four_frames, rng)
    turn = Turn(rng.choice(VIDEO), film(rng, story), film_facts(story), 4)
    return Script(story.scenes, (turn,), (story.key,))


TASK_SCRIPTS: dict[str, Callable[[random.Random, Split], Script]] = {
    "chart": chart,
    "text": text,
    "general": general,
    "hallucination": hallucination,
    "spot": spot,
    "edit": edit_instruction,
    "pororo": pororo,
    "vist": vist,
    "conversation": conversation,
    "detail": detail,
    "reasoning": reasoning,
    "caption": captioning,
    "science": science,
    "video": video,
    "chat": free_chat,
    "swap": swapped,
    "told": told,
    "drill": drill,
}


def _question(rng: random.Random, picture: Picture, ask: Ask) -> Script:
    prefix = REASONED if rng.random() < 0.5 else ""
    return _one_turn(picture, prefix + ask.question, explain(rng, ask), (ask.fact,))


def _one_turn(picture: Picture, question: str, answer: str, facts: tuple[Fact, ...]) -> Script:
    return Script((picture,), (Turn(question, answer, facts, 1),), (picture.key,))


def _any_picture(rng: random.Random, split: Split) -> Picture:
    make: Callable[[random.Random], Picture] = rng.choice(PICTURES)
    return within(split, make, rng)


def _prompt(rng: random.Random, prompts: tuple[str, ...]) -> str:
    """Choose the papers' prompt as often as all others together."""
    return prompts[0] if rng.random() < 0.5 else rng.choice(prompts[1:])


def _of_pair(pair: Pair, question: str, answer: str) -> Script:
    return Script(pair.scenes, (Turn(question, answer, pair_facts(pair), 2),), (pair.key,))


def _story_end(rng: random.Random, split: Split, prompt: str) -> Script:
    story: Story = within(split, five_frames, rng)
    captions = [f"{IMAGE} Caption #{i + 1}: {caption(rng, story, i)}" for i in range(4)]
    question = " ".join([prompt, *captions, f"{IMAGE} Caption #5:"])
    turn = Turn(question, ending(rng, story), ending_facts(story), 5)
    return Script(story.scenes, (turn,), (story.key,))
