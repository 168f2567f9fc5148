"""Says what makes room for a question that exceeds the target's context."""

from bisect import bisect_left

from mmspec.chat.chat import Chat
from mmspec.prompt.conversation import Conversation


def room_offers(chat: Chat, excess: int) -> str:
    """The commands that would free `excess` positions or more, with what each one does."""
    fitting = chat.options.max_new_tokens - excess
    shorter = [f"/max-new-tokens {fitting} shortens the answer"] if fitting > 0 else []
    return ", ".join([*_drop(chat, excess), *shorter, "/reset starts again"])


def _drop(chat: Chat, excess: int) -> list[str]:
    """The /drop that forgets the fewest questions which free `excess` positions."""
    conversation, turns = chat.conversation, chat.conversation.turns
    whole = chat.positions(conversation)

    def freed(number: int) -> int:
        return whole - chat.positions(Conversation(conversation.system, turns[number:]))

    numbers = range(1, len(turns) + 1)
    place = bisect_left(numbers, excess, key=freed)  # few, for each renders a conversation
    return [
        f"/drop {number} forgets the first {number} question{'s' * (number > 1)} "
        f"({freed(number)} positions)"
        for number in numbers[place : place + 1]
    ]
