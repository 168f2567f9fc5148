"""`mmspec memory`: the size of what lookup remembers of conversations, and its end."""

import click

from mmspec.ground.output_files import write_errors
from mmspec_cli.terminal.conversation_store import memory_files
from mmspec_terminal.options import JSON
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import with_screen
from mmspec_terminal.wording import quantity


@click.command()
@click.option("--clear", is_flag=True, help="Delete it.")
@with_screen(JSON)
def memory(screen: Screen, clear: bool) -> None:
    """Show what lookup remembers of your conversations: a file for each tokenizer."""
    sizes = {str(file): file.stat().st_size for file in memory_files()}
    for file in memory_files() if clear else ():
        with write_errors(file):
            file.unlink(missing_ok=True)
    lines = [f"{name}: {size:,} bytes" for name, size in sizes.items()]
    total = f"{quantity(len(sizes), 'file')}, {sum(sizes.values()):,} bytes" + ", deleted" * clear
    screen.tell({"files": sizes, "deleted": clear}, [*lines, total])
