"""Runs this project."""

from mmspec.chat.answer import Piece
from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import open_picture
from mmspec_bench.compare.script_io import Clock, Program, Question, Task


class Mmspec(Program):
    """This project.  Options: `backend`, `drafting`, `gamma`, `exact`."""

    def __init__(self, task: Task) -> None:
        decoding = dict(task.options)
        places = {"device": task.device, "dtype": task.dtype, "backend": decoding.pop("backend")}
        self._options = options = Options(**decoding, max_new_tokens=task.max_tokens)
        self._engine: Engine = load(
            task.model, task.draft or "none", options=options, ready=False, **places
        )
        model = self._engine.target.model
        self.described = self._engine.backend.describe() | self._engine.exact_fields(options.exact)
        self.described |= {"device": model.device, "dtype": model.dtype}

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer in a new conversation; images are encoded again."""
        self._engine.forget()
        chat = self._engine.chat(self._options)
        parts = (
            open_picture(part["image"]) if "image" in part else part["text"] for part in question
        )
        for event in chat.send(Message("user", tuple(parts))):
            if isinstance(event, Piece):
                clock.known(len(chat.answer.token_ids))
        stop = self._engine.target.stop
        tokens = [token for token in chat.answer.token_ids if token not in stop]
        return tokens, chat.answer.statistics.rounds

    def device_bytes(self) -> int:
        """Peak bytes by the backend's counter on an accelerator; 0 on a CPU."""
        on_cpu = self.described["device"] == "cpu"
        return 0 if on_cpu else self._engine.backend.peak_memory()
