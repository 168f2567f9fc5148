"""How well a model sees: asks for facts about held-out drawn pictures and judges the answers.

    python tests/grounding.py --model mini --samples 300 --blank

prints the table of the model's card: right facts by category, and with `--blank` again with grey in
place of every image. Asks until every category was asked for in SAMPLES conversations, or in the
first SAMPLES conversations of each of `--tasks`.
"""

from collections import Counter
from itertools import count, islice, product

import click
from PIL import Image

from mmspec.checkpoints.hub import resolve
from mmspec.families.llava import LlavaVision
from mmspec.prompt.conversation import Turn, interleave
from mmspec.prompt.images import Picture, picture_from
from mmspec_train.data.answers import answer_all
from mmspec_train.data.batch import ConversationRecord, tokenize
from mmspec_train.data.teacher import Teacher
from mmspec_world import TASKS, Sample, sample
from support.judge import CATEGORIES, judge

ROWS = 32
"""Conversations that are answered at once."""


def needed(size: int, samples: int) -> list[Sample]:
    """Conversations of all tasks in turn that ask for a category which is still rare."""
    asked: Counter[str] = Counter()
    conversations = []
    for number, task in ((number, task) for number in count() for task in TASKS):
        wanted = {name for name in CATEGORIES if asked[name] < samples}
        if not wanted:
            break
        conversation = sample(task, number, split="held-out", size=size)
        if categories(conversation) & wanted:
            asked.update(categories(conversation))
            conversations.append(conversation)
    return conversations


def categories(conversation: Sample) -> set[str]:
    """The categories of the facts that a conversation asks for."""
    return {fact.category for turn in conversation.turns for fact in turn.facts}


def score(
    teacher: Teacher, conversations: list[Sample], *, blank: bool
) -> Counter[tuple[str, bool]]:
    """Number of facts by category, or `overall`, and whether the answer states them rightly."""
    counts: Counter[tuple[str, bool]] = Counter()
    ordered = sorted(conversations, key=lambda each: (len(each.turns), len(each.images)))
    for first in range(0, len(ordered), ROWS):
        batch = ordered[first : first + ROWS]
        questions = [question(teacher, conversation, blank) for conversation in batch]
        answered = answer_all(teacher, questions, 160)
        for conversation, (record, _) in zip(batch, answered, strict=True):
            for turn, answer in zip(conversation.turns, record.answers, strict=True):
                text = teacher.tokenizer.decode(answer)
                for fact in turn.facts:
                    right = judge(fact, text)
                    counts.update(((fact.category, right), ("overall", right)))
    return counts


def question(
    teacher: Teacher, conversation: Sample, blank: bool
) -> tuple[ConversationRecord, list[Picture]]:
    """A conversation's prompts, and its pictures, which are mid-grey where they are blanked."""
    images = conversation.images
    shown = [Image.new("RGB", each.size, (128,) * 3) for each in images] if blank else images
    pictures = [*map(picture_from, shown)]
    unseen = iter(pictures)
    turns = [
        Turn(interleave(turn.question, list(islice(unseen, turn.images))), (), turn.answer)
        for turn in conversation.turns
    ]
    return tokenize(0, turns, teacher.template, teacher.tokenizer, teacher.end), pictures


@click.command()
@click.option("--model", default="mini")
@click.option("--samples", default=300, help="Conversations per category, or per task.")
@click.option("--tasks", default="", help="Only these tasks, such as clip8, separated by commas.")
@click.option("--blank", is_flag=True)
def main(model: str, samples: int, tasks: str, blank: bool) -> None:
    """Print right facts by category."""
    teacher = Teacher(resolve(model, "torch"))
    assert isinstance(teacher.config.vision, LlavaVision)
    size = teacher.config.vision.image_size
    if tasks:
        numbered = product(tasks.split(","), range(samples))
        conversations = [sample(task, n, split="held-out", size=size) for task, n in numbered]
    else:
        conversations = needed(size, samples)
    shown = score(teacher, conversations, blank=False)
    grey = score(teacher, conversations, blank=True) if blank else None
    click.echo("| facts | conversations | asked | right | right, image blanked |")
    click.echo("|---|--:|--:|--:|--:|")
    for name in (*CATEGORIES, "overall"):
        if asked := shown[name, True] + shown[name, False]:
            number = sum(name in (*categories(each), "overall") for each in conversations)
            cells = [f"{counts[name, True] / asked:.1%}" for counts in (shown, grey) if counts]
            click.echo(f"| {name} | {number} | {asked} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
