"""`mmspec serve`: an HTTP server that speaks OpenAI's API."""

import signal
from dataclasses import replace
from functools import partial
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mmspec.ground.errors import UsageError, missing_package
from mmspec_cli.terminal.answer import introduction
from mmspec_cli.terminal.interrupt import ENDING, handle_ending
from mmspec_server.settings import ServerSettings
from mmspec_terminal.help_pages import EverydayCommand
from mmspec_terminal.options import MODELS, THINKING, is_typed, together
from mmspec_terminal.render import Screen
from mmspec_terminal.settings_options import choose, options_of
from mmspec_terminal.setup import read_setup

if TYPE_CHECKING:
    from mmspec_server.server import Server


@click.command(cls=EverydayCommand)
@click.argument("name", required=False, metavar="[MODEL]")
@options_of(ServerSettings)
@together(THINKING, MODELS)
def serve(name: str | None, **values: Any) -> None:
    """Answer browsers and programs that speak OpenAI's API, until Ctrl-C or SIGTERM.

    MODEL is a name, repository or directory, as `--model` of `mmspec chat`. System text,
    thinking, temperature, top-p, the number of tokens and, if it is given, the seed apply where a
    request names none.
    """
    context = click.get_current_context()
    if name is not None:
        if is_typed("model") and values["model"] != name:
            raise UsageError(f"MODEL is {name} and --model {values['model']}: give one of them")
        values["model"] = name
    try:
        from mmspec_server.app import Service
        from mmspec_server.decoding import DecodingQueue
        from mmspec_server.server import Server, addresses, listen
    except ModuleNotFoundError as error:
        raise missing_package("mmspec serve", error, "server") from error
    settings = choose(ServerSettings, values)
    screen = Screen()
    setup = read_setup(screen, values)
    queue = DecodingQueue(settings.queue)
    try:
        with listen(settings.host, settings.port) as listener:
            # On the decoding thread: a framework may tie arrays to a thread. A signal ends the
            # process at once, for nothing could stop that thread.
            with handle_ending(signal.SIG_DFL, (signal.SIGINT, *ENDING)):
                engine = queue.call(partial(setup.load, ready=True))
            screen.note(*introduction(engine))
            reads_thinking = engine.target.template.reads_thinking
            if settings.thinking is not None and not (reads_thinking or is_typed("thinking")):
                screen.note(f"{engine.target.name} has no setting for --thinking: it is left out")
                settings = replace(settings, thinking=None)
            has_seed = context.get_parameter_source("seed") != ParameterSource.DEFAULT
            service = Service(engine, setup.options, settings, queue, has_seed)
            address, *remote = addresses(settings.host, listener.getsockname()[1])
            screen.note(
                f"{service.model} answers at {address}/v1, and browsers at {address}; "
                "Ctrl-C ends the server"
            )
            screen.note(*(f"from other machines of the network: {url}" for url in remote))
            _run(Server(service), listener)
    finally:
        queue.close()


def _run(server: "Server", listener: socket) -> None:
    """Serve until a signal: SIGTERM and SIGHUP let the running answer end, and set the status."""
    signals: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        server.should_exit = True

    with handle_ending(end):
        server.run(sockets=[listener])
    if signals:
        raise SystemExit(128 + signals[0])
