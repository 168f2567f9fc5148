"""Runs this project."""

from mmspec.chat.answer import Piece
from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import open_picture
from mmspec_bench.compare.script_io import Clock, Program, Question, Task


def load_mmspec(task: Task) -> Program:
    """Load this project.  Options: `backend`, `quantize`, `drafting`, `gamma`, `exact`."""
    decoding = dict(task.options)
    places = {name: decoding.pop(name) for name in ("backend", "quantize")}
    places |= {"device": task.device, "dtype": task.dtype}
    options = Options(**decoding, max_new_tokens=task.max_tokens)
    engine = load(task.model, task.draft or "none", options=options, ready=False, **places)
    model, backend = engine.target.model, engine.backend

    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        engine.forget()  # images are encoded again
        chat = engine.chat(options)
        parts = (open_picture(it["path"]) if "path" in it else it["text"] for it in question)
        for event in chat.send(Message("user", tuple(parts))):
            if isinstance(event, Piece):
                clock.record(len(chat.answer.token_ids))
        stop = engine.target.stop
        tokens = [token for token in chat.answer.token_ids if token not in stop]
        return tokens, chat.answer.statistics.rounds

    facts = backend.describe() | {"device": model.device, "dtype": model.dtype}
    facts |= engine.exact_fields(options.exact)
    return Program(answer, facts, None if model.device == "cpu" else backend.peak_memory)
