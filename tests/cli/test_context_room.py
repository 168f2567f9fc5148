"""What is said to make room in the context, after few renderings of the conversation."""

from typing import cast

import pytest

from mmspec.chat.chat import Chat
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec_cli.terminal.room import room_offers


class LongChat:
    """250 questions of 7 positions each; counts how often positions are computed."""

    options = Options(max_new_tokens=50)
    conversation = Conversation(None, [Turn(Message("user", ("And now?",)))] * 250)
    computed = 0

    def positions(self, conversation: Conversation) -> int:
        self.computed += 1
        return 7 * len(conversation.turns)


@pytest.mark.parametrize(
    ("excess", "offer"),
    [
        (7, "/drop 1 forgets the first 1 question (7 positions), /max-new-tokens 43 shortens"),
        (1000, "/drop 143 forgets the first 143 questions (1001 positions), /reset starts"),
        (1750, "/drop 250 forgets the first 250 questions (1750 positions), /reset starts"),
        (1751, "/reset starts"),
    ],
)
def test_the_fewest_questions_are_found_in_few_renderings(excess, offer):
    chat = LongChat()
    assert room_offers(cast(Chat, chat), excess).startswith(offer)
    assert chat.computed <= 10
