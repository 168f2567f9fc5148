"""How well a model sees: asks for facts about held-out drawn pictures and judges the answers.

    python tests/grounding.py --model mini --samples 300 --blank

prints the table of the model's card: right facts by category, and with `--blank` again with grey in
place of every image. Asks until every category was asked for in SAMPLES conversations, or in the
first SAMPLES conversations of each of `--tasks`.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import count, islice

import click
from PIL import Image

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import interleaved
from mmspec.prompt.images import Picture, picture_from
from mmspec_world import TASKS, Sample, sample
from support.judge import CATEGORIES, judge


def needed(size: int, samples: int, seed: int) -> list[Sample]:
    """Conversations of all tasks in turn that ask for a category which is still rare."""
    asked: Counter[str] = Counter()
    conversations = []
    for number, task in ((number, task) for number in count(seed) for task in TASKS):
        wanted = {name for name in CATEGORIES if asked[name] < samples}
        if not wanted:
            break
        conversation = sample(task, number, split="held-out", size=size)
        if categories(conversation) & wanted:
            asked.update(categories(conversation))
            conversations.append(conversation)
    return conversations


def of_tasks(tasks: Sequence[str], size: int, samples: int, seed: int) -> list[Sample]:
    """The first conversations of each of the named tasks."""
    numbers = range(seed, seed + samples)
    return [sample(task, n, split="held-out", size=size) for task in tasks for n in numbers]


def blanked(picture: Picture) -> Picture:
    """A mid-grey picture of the same size."""
    return picture_from(Image.new("RGB", picture.image.size, (128, 128, 128)), picture.name)


def categories(conversation: Sample) -> set[str]:
    """The categories of the facts that a conversation asks for."""
    return {fact.category for turn in conversation.turns for fact in turn.facts}


def score(engine: Engine, conversations: list[Sample], *, blank: bool) -> Counter[tuple[str, bool]]:
    """Number of facts by category and whether the answer states them rightly."""
    counts: Counter[tuple[str, bool]] = Counter()
    for conversation in conversations:
        chat = engine.chat(Options(max_new_tokens=160))
        originals = (picture_from(image) for image in conversation.images)
        pictures = iter([blanked(each) if blank else each for each in originals])
        for turn in conversation.turns:
            for _ in chat.send(interleaved(turn.question, list(islice(pictures, turn.images)))):
                pass
            counts.update((fact.category, judge(fact, chat.answer.text)) for fact in turn.facts)
    return counts


@click.command()
@click.option("--model", default="mini")
@click.option("--draft", default="auto")
@click.option("--samples", default=300, help="Conversations per category, or per task.")
@click.option("--tasks", default="", help="Only these tasks, such as clip8, separated by commas.")
@click.option("--seed", default=0)
@click.option("--blank", is_flag=True)
def main(model: str, draft: str, samples: int, tasks: str, seed: int, blank: bool) -> None:
    """Print right facts by category."""
    engine = load(model, draft)
    size = engine.target.model.config.vision.image_size
    some = of_tasks(tasks.split(","), size, samples, seed) if tasks else None
    conversations = some or needed(size, samples, seed)
    shown = score(engine, conversations, blank=False)
    grey = score(engine, conversations, blank=True) if blank else None
    click.echo("| facts | conversations | asked | right | right, image blanked |")
    click.echo("|---|--:|--:|--:|--:|")
    for name in (*CATEGORIES, "overall"):
        if not _asked(shown, name):
            continue
        number = sum(name in (*categories(each), "overall") for each in conversations)
        cells = [_share(counts, name) for counts in (shown, grey) if counts]
        click.echo(f"| {name} | {number} | {_asked(shown, name)} | {' | '.join(cells)} |")


def _asked(counts: Counter[tuple[str, bool]], name: str) -> int:
    return sum(n for (category, _), n in counts.items() if name in (category, "overall"))


def _share(counts: Counter[tuple[str, bool]], name: str) -> str:
    right = sum(n for (category, ok), n in counts.items() if ok and name in (category, "overall"))
    return f"{right / _asked(counts, name):.1%}"


if __name__ == "__main__":
    main()
