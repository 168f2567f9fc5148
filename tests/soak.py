"""Chat and serve for hours, and log what must not grow or go wrong.

    python tests/soak.py --minutes 120 --out FOLDER [--seed 0] [--idle 3]

Chats and servers on both backends, in random order by seed, with interrupts, clients that leave and
malformed requests. Every answer that can be is compared with a plain cold run. FOLDER gets
`log.csv`, a row a minute, `failures.log`, `stderr.log` and `summary.json`.
"""

import argparse
import csv
import io
import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Message
from support.live_server import CHAT, Live, data_url, live, text_of
from support.random_chat import RandomChat, drawn_picture, question

BACKENDS = ("torch", "mlx")
DRAFTS = ("mini-draft", "mini-msd")
TOKENS = 24
JSON = {"Content-Type": "application/json"}
BODIES = (b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff" * 99, b"{" * 9999)


class Soak:
    """Everything that is open, and what happened so far."""

    def __init__(self, draws: Random, stack: ExitStack) -> None:
        self.draws, self.counts = draws, Counter[str]()
        options = Options(max_new_tokens=TOKENS)
        self.engines = {
            (backend, draft): load("mini", draft, backend=backend, device="cpu")
            for backend in BACKENDS
            for draft in DRAFTS
        }
        engines = self.engines.values()
        self.chats = [RandomChat(engine, draws, options, self.counts) for engine in engines]
        self.servers = {backend: self._server(backend, options, stack) for backend in BACKENDS}

    def _server(self, backend: str, options: Options, stack: ExitStack) -> Live:
        def loaded() -> Any:
            return load("mini", backend=backend, device="cpu")

        return stack.enter_context(live(loaded, options, conversations=3, queue=2))

    def act(self) -> None:
        """Do one thing."""
        often = [self.converse] * 6 + [self.request] * 2
        chosen = self.draws.choice([*often, self.malformed, self.cancelled])
        self.counts[chosen.__name__] += 1
        chosen()

    def converse(self) -> None:
        """Some steps of one chat of a backend and a draft."""
        chat = self.draws.choice(self.chats)
        for _ in range(self.draws.randint(1, 5)):
            chat.step()

    # The servers

    def _question(self) -> tuple[Message, dict[str, Any]]:
        """A question with its picture, and the request that asks it."""
        picture, text = drawn_picture(self.draws), question(self.draws)
        png = io.BytesIO()
        picture.image.save(png, "PNG")
        image = {"type": "image_url", "image_url": {"url": data_url(png.getvalue())}}
        content = [image, {"type": "text", "text": text}]
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": TOKENS}
        return Message("user", (picture, text)), body

    def request(self) -> None:
        """A good request, whose answer is that of a plain chat."""
        backend = self.draws.choice(BACKENDS)
        message, body = self._question()
        reply = self.servers[backend].client.post(CHAT, json=body)
        assert reply.status_code == 200, reply.text
        with self.engines[backend, DRAFTS[0]].chat(
            Options(drafting="none", max_new_tokens=TOKENS)
        ) as plain:
            for _ in plain.send(message):
                pass
            self.counts["compared"] += 1
            assert text_of(reply.json()) == plain.answer.text, (body, plain.answer.text)

    def malformed(self) -> None:
        """A request that is refused."""
        client = self.servers[self.draws.choice(BACKENDS)].client
        reply = client.post(CHAT, content=self.draws.choice(BODIES), headers=JSON)
        assert 400 <= reply.status_code < 500, reply.text

    def cancelled(self) -> None:
        """A stream that is left after some lines, and a request whose client leaves at once."""
        _, body = self._question()
        client = self.servers[self.draws.choice(BACKENDS)].client
        body |= {"stream": True, "max_tokens": 400}
        with client.stream("POST", CHAT, json=body) as reply:
            for _ in zip(range(self.draws.randrange(4)), reply.iter_lines(), strict=False):
                pass
        try:
            client.post(CHAT, json=body, timeout=self.draws.uniform(0.01, 0.2))
        except httpx2.TimeoutException:
            self.counts["client left"] += 1


def sizes() -> dict[str, int]:
    """What this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "MB": pages * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "tasks": len(list(Path("/proc/self/task").iterdir())),
    }


def processor_seconds() -> float:
    """Seconds that this process and those that it waited for have computed."""
    return sum(os.times()[:4])


def row(soak: Soak, minutes: float, out: Path) -> dict[str, int]:
    """What happened so far, and what this process holds."""
    names = ("acts", "compared", "drafted", "near-tie", "bug", "failures")
    counts = {name: soak.counts[name] for name in names}
    tracebacks = (out / "stderr.log").read_text(errors="replace").count("Traceback")
    return {"minute": round(minutes), **counts, **sizes(), "tracebacks": tracebacks}


def prepare(out: Path) -> None:
    """Let everything that is written go to `out`, stderr to a file in it."""
    out.mkdir(parents=True)
    os.environ |= {"MMSPEC_CACHE": str(out / "cache"), "HF_HUB_OFFLINE": "1"}
    log = os.open(out / "stderr.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    os.close(log)


def run(out: Path, minutes: float, seed: int, idle: float) -> int:
    """Act until the time is over; `idle` seconds pass for every second on a processor."""
    prepare(out)
    began, rows = time.monotonic(), list[dict[str, int]]()
    with ExitStack() as stack, (out / "log.csv").open("w", newline="") as log:
        soak = Soak(Random(seed), stack)
        while (passed := (time.monotonic() - began) / 60) < minutes:
            started = processor_seconds()
            soak.counts["acts"] += 1
            try:
                soak.act()
            except Exception:  # noqa: BLE001 - whatever went wrong is logged, and the soak goes on
                soak.counts["failures"] += 1
                with (out / "failures.log").open("a") as file:
                    file.write(f"minute {passed:.1f}\n{traceback.format_exc()}\n")
            if passed >= len(rows):
                rows.append(row(soak, passed, out))
                csv.writer(log).writerows([rows[0], rows[-1].values()][len(rows) > 1 :])
                log.flush()
            time.sleep(idle * (processor_seconds() - started))
    summary = json.dumps({"last": rows[-1], "counts": dict(soak.counts)}, indent=1)
    (out / "summary.json").write_text(summary)
    print(summary)  # noqa: T201
    return int(any((rows[-1]["tracebacks"], soak.counts["failures"], soak.counts["bug"])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--idle", type=float, default=3)
    given = parser.parse_args()
    sys.exit(run(given.out.absolute(), given.minutes, given.seed, given.idle))
