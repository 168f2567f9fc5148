"""`mmspec memory`: the size of what lookup remembers of conversations, and its end."""

import click

from mmspec.ground.output_files import write_errors
from mmspec_cli.terminal.lookup_memory import memory_files
from mmspec_terminal.options import JSON, PLAIN
from mmspec_terminal.render import Screen


@click.command()
@click.option("--clear", is_flag=True, help="Delete it.")
@JSON
@PLAIN
def memory(clear: bool, as_json: bool, plain: bool) -> None:
    """Show what lookup remembers of your conversations: a file for each tokenizer."""
    screen = Screen(plain=plain)
    sizes = {str(file): file.stat().st_size for file in memory_files()}
    for file in memory_files() if clear else ():
        with write_errors(file):
            file.unlink(missing_ok=True)
    if as_json:
        screen.json({"files": sizes, "deleted": clear})
        return
    for name, size in sizes.items():
        screen.say(f"{name}: {size:,} bytes")
    screen.say(f"{len(sizes)} files, {sum(sizes.values()):,} bytes" + ", deleted" * clear)
