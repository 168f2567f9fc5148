"""Turns of chats over scripted models, compared with plain decoding from nothing."""

from dataclasses import replace

from mmspec.chat.options import Options
from mmspec.prompt.conversation import Conversation
from support.scripted_engine import picture

A, B = picture(1), picture(2)
OPTIONS = Options(max_new_tokens=8, gamma=3)


def asked(chat, text, *images):
    return chat.reply(text, images).token_ids


def cold(chat, text, *images):
    """What a new chat without a draft says after the same turns."""
    plain = replace(chat.options, drafting="none", weights=())
    past = Conversation(chat.conversation.system, list(chat.conversation.turns))
    return asked(chat.models.chat(plain, past), text, *images)


def check(chat, text, *images):
    expected = cold(chat, text, *images)
    assert asked(chat, text, *images) == expected
