"""Room for an answer in the context: which questions to forget for more."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from mmspec.chat.chat import Chat
from mmspec.chat.draft_selection import TYPICAL_ANSWER
from mmspec.prompt.conversation import Message, Turn


def first_questions(turns: Sequence[Turn]) -> str:
    """`the first 2 questions, with a.png`: the oldest turns, and the images that go with them."""
    names = ", ".join(picture.name for turn in turns for picture in turn.question.pictures)
    number = f"{len(turns)} questions" if len(turns) > 1 else "question"
    return f"the first {number}" + f", with {names}" * bool(names)


def room_offers(chat: Chat, excess: int) -> str:
    """The commands that would free `excess` positions or more, the one that loses nothing first."""
    tokens = min(chat.options.max_new_tokens, TYPICAL_ANSWER) - excess
    shorter = [f"/max-new-tokens {tokens} shortens the answer"] if tokens > 0 else []
    dropping = [
        f"/drop {number} forgets {first_questions(chat.conversation.turns[:number])} "
        f"({positions} positions)"
        for number, positions in to_forget(chat, excess)
    ]
    return ", ".join([*shorter, *dropping, "/reset starts again"])


def to_forget(chat: Chat, excess: int) -> list[tuple[int, int]]:
    """The fewest questions that free `excess` positions, and how many they free; [] if none do."""
    conversation, turns = chat.conversation, chat.conversation.turns
    question = Turn(Message("user", ("",)))  # with it system text and template stay in each count

    def positions(number: int) -> int:
        return chat.positions(replace(conversation, turns=[*turns[number:], question]))

    total, numbers = positions(0), range(1, len(turns) + 1)
    # Few are counted, for each renders a conversation.
    place = bisect_left(numbers, excess, key=lambda number: total - positions(number))
    return [(number, total - positions(number)) for number in numbers[place : place + 1]]
