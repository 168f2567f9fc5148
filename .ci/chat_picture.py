"""Draw docs/figures/chat.svg: what a terminal shows of a chat with the bundled pair.

    python .ci/chat_picture.py [FILE]     needs tmux; `mmspec` is the one on PATH

tmux is the terminal: it gets the keys that a person would type, and rich draws its screen.
"""

import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs" / "figures" / "chat.svg"
SAMPLES = ROOT / "models" / "mmspec_models" / "samples"
COLUMNS, ROWS = 84, 34
SECONDS = 120
"""The most seconds that the terminal may take to show what is waited for."""
QUESTIONS = ("What is in this picture?", "How many triangles are there?")
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>A chat in a terminal</title>
<style>.{unique_id}-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace;
line-height: {line_height}px; }} .{unique_id}-title {{ font: bold 18px sans-serif; }} {styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""Rich's drawing without its font, which would be loaded from elsewhere."""


class Terminal:
    """A session of tmux on a socket of its own."""

    def __init__(self, folder: Path, command: str) -> None:
        self._tmux = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", *size, "-e", "COLORTERM=truecolor", command)

    def _run(self, *words: str) -> str:
        return subprocess.check_output([*self._tmux, *words], text=True)

    def type(self, text: str) -> None:
        """Type a line."""
        self._run("send-keys", "-l", text)
        self._run("send-keys", "Enter")

    def screen(self, *, colours: bool = False) -> str:
        """What the terminal shows."""
        return self._run("capture-pane", "-p", *(["-e"] if colours else []))

    def wait(self, text: str, times: int) -> None:
        """Wait until the screen shows a text so often, and no longer changes."""
        deadline, before = time.monotonic() + SECONDS, ""
        while (now := self.screen()) != before or now.count(text) < times:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} was not shown {times} times:\n{now}")
            before = now
            time.sleep(0.5)

    def close(self) -> None:
        """End the session and all that runs in it."""
        self._run("kill-server")


def captured() -> str:
    """The screen after the questions, with its colours as escape sequences."""
    with tempfile.TemporaryDirectory() as home:
        command = f"cd {SAMPLES}; HOME={home} exec mmspec chat shapes.png --model mini --private"
        terminal = Terminal(Path(home), command)
        try:
            terminal.wait("[1 image] >", 1)
            for count, question in enumerate(QUESTIONS, start=1):
                terminal.type(question)
                terminal.wait(" in all", count)
            return terminal.screen(colours=True).rstrip()
        finally:
            terminal.close()


def draw(screen: str, file: Path) -> None:
    """Write a screen as an SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(screen))
    drawing = console.export_svg(title="mmspec chat", code_format=FORMAT, unique_id="chat")
    file.write_text(drawing + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(captured(), Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
