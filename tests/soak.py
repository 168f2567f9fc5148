"""Use everything for hours, and log what must not grow or go wrong.

    python tests/soak.py --minutes 120 --out FOLDER [--seed 0] [--idle 3]

Chats, servers, commands and terminals on both backends, in random order by seed, with interrupts,
kills and malformed requests. Every answer that can be is compared with a plain cold run. FOLDER
gets `log.csv`, a row a minute, `failures.log`, `stderr.log` and `summary.json`.
"""

import argparse
import csv
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import httpx2

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Message
from mmspec_bench.suite.rows import PROVENANCE, ROWS, read_rows
from mmspec_cli.main import main as mmspec
from support.commands import start_process
from support.live_server import CHAT, Live, data_url, live, text_of
from support.random_chat import RandomChat, drawn_picture, question
from support.terminal import PROMPT, Terminal

BACKENDS = ("torch", "mlx")
DRAFTS = ("mini-draft", "mini-msd")
TOKENS = 24
JSON = {"Content-Type": "application/json"}
BODIES = (b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff" * 99, b"{" * 9999)
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


class Soak:
    """Everything that is open, and what happened so far."""

    def __init__(self, out: Path, draws: Random, stack: ExitStack) -> None:
        self.out, self.draws, self.counts = out, draws, Counter[str]()
        options = Options(max_new_tokens=TOKENS)
        self.engines = {
            (backend, draft): load("mini", draft, backend=backend, device="cpu")
            for backend in BACKENDS
            for draft in DRAFTS
        }
        self.chats = [
            RandomChat(engine, draws, options, self.counts) for engine in self.engines.values()
        ]
        self.servers = {backend: self._server(backend, options, stack) for backend in BACKENDS}

    def _server(self, backend: str, options: Options, stack: ExitStack) -> Live:
        def loaded() -> Any:
            return load("mini", backend=backend, device="cpu")

        return stack.enter_context(live(loaded, options, conversations=3, waiting=2))

    def act(self) -> None:
        """Do one thing."""
        often = [self.converse] * 12 + [self.request] * 4
        often += [self.malformed, self.cancelled] * 3
        rare = [self.pipe, self.terminal, self.generate, self.bench, self.calibrate]
        chosen = self.draws.choice(often + rare)
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

    # The commands, in this process

    def _run(self, *arguments: str, stdin: str = "", statuses: tuple[int, ...] = (0,)) -> str:
        before, sys.stdin = sys.stdin, io.StringIO(stdin)
        with redirect_stdout(io.StringIO()) as out:
            try:
                status = mmspec([*arguments])
            finally:
                sys.stdin = before
        assert status in statuses, (arguments, status, out.getvalue())
        return out.getvalue()

    def _models(self) -> list[str]:
        backend = self.draws.choice(BACKENDS)
        return ["--model", "mini", "--backend", backend, "--device", "cpu"]

    def _png(self) -> str:
        file = self.out / f"picture-{self.counts['acts']}.png"
        drawn_picture(self.draws).image.save(file)
        return str(file)

    def generate(self) -> None:
        """`mmspec generate` prints JSON."""
        words = ["--prompt", question(self.draws), "--max-new-tokens", "16", "--json"]
        json.loads(self._run("generate", self._png(), *words, *self._models()))

    def pipe(self) -> None:
        """A chat over a pipe that saves, takes back, and goes on with what it saved."""
        saved = self.out / f"talk-{self.counts['acts']}.json"
        lines = f"what is it?\n/save {saved}\nwhy?\n/undo\n/retry\n/reset\n/load {saved}\nand?\n"
        self._run("chat", self._png(), "--max-new-tokens", "8", *self._models(), stdin=lines)
        assert len(json.loads(saved.read_text())["turns"]) == 1

    def calibrate(self) -> None:
        """On a busy machine it may say that it wrote nothing."""
        self._run("calibrate", *self._models(), statuses=(0, 1))

    # The commands, in processes of their own, that end by signals

    def bench(self) -> None:
        """A run of the suite that is ended at any moment, resumed, and reported on."""
        out = self.out / f"run-{self.counts['bench']}"
        few = ["--tasks", "chart", "--limit", "3", "--turns", "1", "--methods", "MT,none"]
        first = self.draws.randrange(1000)
        few += ["--seed", str(first), "--max-new-tokens", "12"]
        arguments = ["bench", "run", *few, *self._models(), "--out", str(out)]
        process = start_process(mmspec, arguments)
        process.join(self.draws.uniform(1, 12))
        if process.is_alive():
            os.kill(process.pid or 0, self.draws.choice(ENDS))
        process.join()
        resumed = ["--resume"] if (out / PROVENANCE).exists() else []
        self._run(*arguments, *resumed)
        rows = read_rows(out / ROWS)
        samples = [f"chart/{number}" for number in range(first, first + 3)]
        assert [row.sample for row in rows[::2]] == samples
        assert all(row.identical for row in rows if row.method == "MT"), out
        self._run("bench", "report", str(out), "--json")

    def terminal(self) -> None:
        """A chat at a terminal, ended while it answers or waits; then what it kept goes on."""
        more = ["--max-new-tokens", "400", "--repeat-limit", "0", "--preview", "off"]
        arguments = ["chat", *self._models(), *more]
        terminal = Terminal(mmspec, arguments, self.out)
        try:
            terminal.wait(PROMPT)
            terminal.type("what do you see?\r")
            terminal.watch(self.draws.uniform(0.1, 4))
            if self.draws.random() < 0.5:
                terminal.type("\x03")
                terminal.wait(PROMPT)
                terminal.type("/stats\r")
                terminal.wait(PROMPT)
            end = self.draws.choice(ENDS[1:])
            os.kill(terminal.process.pid or 0, end)
            status = terminal.status()
            assert "Traceback" not in terminal.screen, terminal.screen
            assert status == (-end if end == signal.SIGKILL else 128 + end), status
            assert end == signal.SIGKILL or terminal.changes() == [], terminal.changes()
        finally:
            os.close(terminal.fd)
        self._resumed()

    def _resumed(self) -> None:
        kept = sorted((self.out / "mmspec" / "conversations").glob("*.json"))
        if not kept:
            return
        terminal = Terminal(mmspec, ["chat", "--resume", "--backend", "torch"], self.out)
        try:
            terminal.wait(PROMPT)
            terminal.type("/quit\r")
            assert terminal.status() == 0, terminal.screen
            assert "Traceback" not in terminal.screen, terminal.screen
        finally:
            os.close(terminal.fd)
        for file in kept:
            json.loads(file.read_text())


def leftovers(out: Path) -> list[str]:
    """Files that something should have deleted."""
    partial = [str(path) for path in out.rglob("*partial*")]
    mine = (path.name for path in (out / "tmp").iterdir())
    return partial + [name for name in mine if not name.startswith("pymp-")]


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


class Log:
    """`log.csv` with a row a minute, and `failures.log`."""

    def __init__(self, out: Path, soak: Soak) -> None:
        self.out, self.soak, self.started, self.next = out, soak, time.monotonic(), 0.0
        self.rows: list[dict[str, int]] = []

    @property
    def minutes(self) -> float:
        """Minutes since the start."""
        return (time.monotonic() - self.started) / 60

    def write(self) -> None:
        """Add a row, if a minute has passed."""
        if self.minutes < self.next:
            return
        self.next += 1
        counts = self.soak.counts
        names = ("acts", "compared", "drafted", "near-tie", "bug", "failures")
        row = {"minute": round(self.minutes), **{name: counts[name] for name in names}, **sizes()}
        row["leftovers"] = len(leftovers(self.out))
        row["tracebacks"] = (self.out / "stderr.log").read_text(errors="replace").count("Traceback")
        self.rows.append(row)
        with (self.out / "log.csv").open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if len(self.rows) == 1:
                writer.writeheader()
            writer.writerow(row)

    def failure(self) -> None:
        """Count the exception that is being handled, and keep its traceback."""
        self.soak.counts["failures"] += 1
        with (self.out / "failures.log").open("a") as file:
            file.write(f"minute {self.minutes:.1f}\n{traceback.format_exc()}\n")

    def summary(self) -> dict[str, Any]:
        """The first, median and last sizes, and all counts."""
        last, hour = self.rows[-1], self.rows[min(len(self.rows) - 1, 20) :]
        flat = {name: [min(r[name] for r in hour), max(r[name] for r in hour)] for name in sizes()}
        return {
            "minutes": round(self.minutes, 1),
            "last": last,
            "range after 20 minutes": flat,
            "counts": dict(self.soak.counts),
        }


def prepare(out: Path) -> None:
    """Let everything that is written go to `out`, stderr to a file in it, and signals arrive.

    What a shell starts in the background is told to ignore Ctrl-C, with nohup SIGHUP too.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    (out / "tmp").mkdir(parents=True)
    os.environ |= {
        "MMSPEC_CACHE": str(out / "cache"),
        "XDG_STATE_HOME": str(out),
        "TMPDIR": str(out / "tmp"),
        "HF_HUB_OFFLINE": "1",
    }
    log = os.open(out / "stderr.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    os.close(log)


def run(out: Path, minutes: float, seed: int, idle: float) -> int:
    """Act until the time is over; `idle` seconds pass for every second on a processor."""
    prepare(out)
    with ExitStack() as stack:
        soak = Soak(out, Random(seed), stack)
        log = Log(out, soak)
        while log.minutes < minutes:
            started = processor_seconds()
            soak.counts["acts"] += 1
            try:
                soak.act()
            except Exception:  # noqa: BLE001 - whatever went wrong is logged, and the soak goes on
                log.failure()
            log.write()
            time.sleep(idle * (processor_seconds() - started))
        summary = log.summary()
    (out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))  # noqa: T201
    bad = summary["last"]["tracebacks"] + summary["last"]["leftovers"]
    return int(bool(bad + soak.counts["failures"] + soak.counts["bug"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--idle", type=float, default=3)
    given = parser.parse_args()
    sys.exit(run(given.out.absolute(), given.minutes, given.seed, given.idle))
