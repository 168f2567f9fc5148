"""This project as a worker: `python -m mmspec.bench.peers.ours`."""

from collections.abc import Sequence
from typing import Any

from mmspec.bench.peers.serve import Clock, serve
from mmspec.bench.peers.wire import Question, Setup
from mmspec.chat import Piece
from mmspec.conversation import Message
from mmspec.engine import Engine, load
from mmspec.images import Picture, open_picture
from mmspec.options import Options


class Ours:
    """Options: `backend`, `drafting`, `gamma`."""

    def __init__(self, setup: Setup) -> None:
        """Load target and draft; raises MmspecError."""
        backend, self._drafting, self._gamma = (
            setup.options[name] for name in ("backend", "drafting", "gamma")
        )
        self._engine: Engine = load(
            setup.model,
            setup.draft or "none",
            backend=backend,
            device=setup.device,
            dtype=setup.dtype,
        )

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer in a new conversation, as `Chat.ask` does; images are looked at anew."""
        self._engine.forget()
        chat = self._engine.chat(
            Options(drafting=self._drafting, gamma=self._gamma, max_new_tokens=question.max_tokens)
        )
        for event in chat.send(Message("user", _parts(question.parts))):
            if isinstance(event, Piece):
                clock.known(len(chat.answer.token_ids))
        stop = self._engine.stop
        said = [token for token in chat.answer.token_ids if token not in stop]
        return said, chat.answer.statistics.rounds

    def describe(self) -> dict[str, Any]:
        """The backend's own account."""
        model = self._engine.target.model
        return self._engine.backend.describe() | {"device": model.device, "dtype": model.dtype}

    def device_bytes(self) -> int:
        """The backend's counter, where the model is on an accelerator."""
        on_cpu = self._engine.target.model.device == "cpu"
        return 0 if on_cpu else self._engine.backend.peak_memory()


def _parts(parts: Sequence[dict[str, str]]) -> tuple[str | Picture, ...]:
    return tuple(open_picture(part["image"]) if "image" in part else part["text"] for part in parts)


if __name__ == "__main__":
    serve(Ours)
