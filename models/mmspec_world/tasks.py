"""The tasks: each turns a seed into drawings, questions and answers."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PIL import Image

from mmspec_world import dialogues, pictures, questions, sequence_texts, sequences
from mmspec_world.dialogues import Maker, Script
from mmspec_world.drawing import LETTERS, Labels, label, render
from mmspec_world.facts import Fact, JudgedTurn, Sample
from mmspec_world.sequences import MovingScene, Pair, Story
from mmspec_world.split import KEY_SEPARATOR, Split, draw_in_split, seed_of
from mmspec_world.wording import Narrator, fact, join_sentences, letter_choices, prompts, sentence

Scenes = MovingScene | Pair | Story
Facts = tuple[Fact, ...]
ANY_DRAWING: tuple[Maker, ...] = (
    *[pictures.few_things] * 2,
    pictures.many_things,
    pictures.bar_chart,
    pictures.written_word,
)


def question(kind: str, rng: Narrator, split: Split) -> Script:
    """Ask one question about a picture; kind: of `draw_query`."""
    drawing, query = dialogues.draw_query(kind, rng, split)
    prefix = prompts("reasoned")[0] if rng.random() < 0.5 else ""
    return _one_turn(drawing, prefix + query.question, rng.explain(query), (query.fact,))


def reasoning(rng: Narrator, split: Split) -> Script:
    """Ask a small puzzle about a scene (LLaVA-Bench)."""
    make = rng.choice((pictures.two_apart, pictures.many_things))
    drawing, query = dialogues.draw_for_query(rng, split, make, questions.puzzle_query)
    return _one_turn(drawing, query.question, rng.explain(query), (query.fact,))


def detail(rng: Narrator, split: Split) -> Script:
    """Ask for a long description of a picture (LLaVA-Bench)."""
    drawing = draw_in_split(split, rng.choice(ANY_DRAWING), rng)
    return _one_turn(drawing, rng.say("chat.details"), *rng.description(drawing, short=False))


def captioning(rng: Narrator, split: Split) -> Script:
    """Ask for a caption of a picture, in one sentence or in detail (COCO)."""
    drawing = draw_in_split(split, rng.choice(ANY_DRAWING), rng)
    short = rng.random() < 0.6
    prompt = prompts("caption" if short else "detailed_caption")[0]
    return _one_turn(drawing, prompt, *rng.description(drawing, short=short))


def science(rng: Narrator, split: Split) -> Script:
    """Ask for one of four choices, after a chain of thought (ScienceQA)."""
    drawing, query = dialogues.draw_any_query(rng, split)
    others = rng.sample([option for option in query.fact.options if option != query.fact.value], 3)
    choices = rng.sample([query.fact.value, *others], 4)
    letter = LETTERS[choices.index(query.fact.value)]
    listing = letter_choices(choices)
    question = f"Question: {query.question}\nChoices: {listing}\n{prompts('steps')[0]}"
    final = rng.say("answer.choice", a=letter)
    letter_fact = fact(query.fact.category, letter, LETTERS[:4], "answer")
    return _one_turn(drawing, question, f"{rng.explain(query)} {final}", (query.fact, letter_fact))


def two_images(kind: str, rng: Narrator, split: Split) -> Script:
    """Ask about two images that differ in one thing."""
    pair, (first_prompt, *others) = draw_in_split(split, sequences.changed_pair, rng), prompts(kind)
    prompt = first_prompt if rng.random() < 0.5 else rng.choice(others)
    return _one_turn(pair, prompt, *sequence_texts.pair_answer(kind, rng, pair))


def text_only(rng: Narrator, split: Split) -> Script:
    """Ask about a scene or a pair that is described in words instead of shown."""
    return rng.choice((_text_only_pair, _text_only_scene, _text_only_scene))(rng, split)


def _text_only_scene(rng: Narrator, split: Split) -> Script:
    make = rng.choice((pictures.few_things, pictures.two_apart, pictures.many_things))
    scene = draw_in_split(split, make, rng)
    queries = dialogues.queries_about(rng, scene, 4)
    others = questions.presence_query(rng, scene), questions.puzzle_query(rng, scene)
    queries += filter(None, others)
    rng.shuffle(queries)
    queries = [query for query in queries if query.fact.category != "background"]
    turns = [JudgedTurn(query.question, rng.conclude(query)) for query in queries]
    first = replace(turns[0], question=f"{rng.describe(scene)} {turns[0].question}")
    return Script((), (first, *turns[1:]), (scene.key,))


def _text_only_pair(rng: Narrator, split: Split) -> Script:
    pair = draw_in_split(split, sequences.changed_pair, rng)
    kind = rng.choice(("difference", "edit"))
    descriptions = sequence_texts.describe_both(rng, pair)
    question = f"{descriptions} {rng.choice(prompts(kind)[1:])}"
    answer = sequence_texts.change_text(kind, rng, pair)
    return Script((), (JudgedTurn(question, answer),), (pair.key,))


def story_ending(name: str, rng: Narrator, split: Split) -> Script:
    """Ask for the end of a story of five captioned images; name: of the prompt."""
    story: Story = draw_in_split(split, partial(sequences.draw_story, frames=5), rng)
    captions = [
        f"<image> Caption #{i + 1}: {sequence_texts.frame_caption(rng, story, i)}" for i in range(4)
    ]
    question = " ".join([prompts(name)[0], *captions, "<image> Caption #5:"])
    return _one_turn(story, question, *sequence_texts.ending_answer(rng, story))


def video(rng: Narrator, split: Split) -> Script:
    """Ask what happens in four frames of a video."""
    story = draw_in_split(split, partial(sequences.draw_story, frames=4), rng)
    return _one_turn(story, rng.choice(prompts("video")), *sequence_texts.video_answer(rng, story))


def _one_turn(
    content: pictures.Drawing | Scenes, question: str, answer: str, facts: Facts
) -> Script:
    drawings = content.scenes if isinstance(content, Scenes) else (content,)
    return Script(drawings, (JudgedTurn(question, answer, facts, len(drawings)),), (content.key,))


TASK_SCRIPTS: dict[str, Callable[[Narrator, Split], Script]] = {
    "chart": partial(question, "chart"),  # ChartQA
    "text": partial(question, "word"),  # TextVQA
    "general": partial(question, "scene"),  # VQAv2
    "hallucination": partial(question, "presence"),  # HallusionBench, POPE
    "spot": partial(two_images, "difference"),  # Spot-the-Diff
    "edit": partial(two_images, "edit"),  # IEdit
    "pororo": partial(story_ending, "pororo"),  # PororoSV
    "vist": partial(story_ending, "vist"),  # VIST
    "conversation": dialogues.conversation,
    "detail": detail,
    "reasoning": reasoning,
    "caption": captioning,
    "science": science,
    "video": video,
    "chat": dialogues.free_chat,
    "swap": dialogues.picture_swap,
    # The name is part of the seed and of published tables: another one would draw other samples.
    "told": text_only,
}


def clip_script(frames: int, rng: Narrator, split: Split) -> Script:
    """Ask for a description of a clip, or for what enters, leaves or moves in it."""
    clip = draw_in_split(split, partial(sequences.moving_scene, frames=frames), rng)
    if rng.random() < 0.5:
        text, facts = sequence_texts.clip_answer(rng, clip)
        return _one_turn(clip, rng.choice(prompts("video")), text, facts)
    event = rng.choice(sequences.EVENTS)
    moving = next(moving for moving in clip.things if moving.event == event)
    question = rng.say(f"clip.{event}_question")
    clause = sentence(sequence_texts.event_text(rng, moving))
    text = join_sentences(sequence_texts.start_text(rng, clip), clause)
    return _one_turn(clip, question, text, sequence_texts.moving_facts(moving))


CLIP_SCRIPTS: dict[str, Callable[[Narrator, Split], Script]] = {
    f"clip{frames}": partial(clip_script, frames) for frames in (4, 8, 16)
}
"""The scripts by task; the bundled pair was not trained on them."""

TASKS = tuple(TASK_SCRIPTS)
SCRIPTS = TASK_SCRIPTS | CLIP_SCRIPTS


def sample(task: str, seed: int, *, split: Split, size: int = 144) -> Sample:
    """Return a task's sample of a seed, the same in every process; no content is in two splits."""
    rng = Narrator(seed_of(task, split, seed))
    script = SCRIPTS[task](rng, split)
    images = tuple(render(rng, p.marks(rng), p.background, size) for p in script.drawings)
    return Sample(task, images, script.turns, KEY_SEPARATOR.join(script.keys))


def labelled_picture(
    seed: int, *, split: Split, size: int = 144, grid: int = 12
) -> tuple[Image.Image, Labels]:
    """Return a picture and, for each name in LABELS, integer labels [grid, grid] of its cells.

    0 means no label, except for "background", whose classes start at 0.
    """
    rng = random.Random(seed_of("labelled", split, seed))
    drawing = draw_in_split(split, rng.choice(MAKERS), rng)
    marks = drawing.marks(rng)
    return render(rng, marks, drawing.background, size), label(marks, drawing.background, grid)


MAKERS: tuple[Maker, ...] = (
    *[pictures.few_things] * 2,
    *[pictures.many_things] * 2,
    *[pictures.bar_chart] * 2,
    *[pictures.written_word] * 7,  # a vision tower learns letters last
    lambda rng: rng.choice(sequences.draw_story(rng, 5).scenes),
    lambda rng: rng.choice(sequences.changed_pair(rng).scenes),
)
