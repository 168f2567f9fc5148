"""`mmspec serve`: an HTTP server that speaks OpenAI's API."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from mmspec.errors import not_installed
from mmspec_cli.decoding import decoding_options
from mmspec_cli.options import (
    BACKEND,
    CAPTIONER,
    DEVICE,
    DRAFT,
    DRAFTING,
    DTYPE,
    MODELS,
    QUANTIZE,
    REPEAT_LIMIT,
    SAMPLING,
    Setup,
    together,
)
from mmspec_cli.terminal.render import Screen

if TYPE_CHECKING:
    from mmspec_server.settings import Settings

HOST = "127.0.0.1"
PORT = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8585,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
QUEUE = click.option(
    "--queue",
    type=click.IntRange(0, 10_000),
    default=16,
    show_default=True,
    help="Requests that may wait for the one that is answered; more get status 429.",
)
GRACE = click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=10.0,
    show_default=True,
    help="Seconds that the running answer may take after SIGTERM or Ctrl-C before it is cut.",
)


@click.command()
@click.argument("model", default="auto", metavar="[MODEL]")
@together(PORT, QUEUE, GRACE)
@together(DRAFT, BACKEND, DEVICE, DTYPE, QUANTIZE, CAPTIONER, *DRAFTING, *SAMPLING, REPEAT_LIMIT)
def serve(port: int, queue: int, grace: float, **values: Any) -> None:
    """Answer programs that speak OpenAI's API, until Ctrl-C or SIGTERM.

    MODEL is a name, repository or directory, as `--model` of `mmspec chat`. Temperature, top-p,
    seed and the number of tokens apply where a request names none.
    """
    _require_packages()
    from mmspec_server.settings import Settings

    settings = Settings(waiting=queue, grace_seconds=grace)
    models = {name: values.pop(name) for name in MODELS}
    setup = Setup(models, decoding_options(values), as_json=False, plain=False, accepted=False)
    _run(setup, settings, port)


def _require_packages() -> None:
    try:
        import_module("mmspec_server.server")
    except ModuleNotFoundError as error:
        raise not_installed("mmspec serve", error, "server") from error


def _run(setup: Setup, settings: "Settings", port: int) -> None:
    from mmspec_server.decoding_queue import DecodingQueue
    from mmspec_server.server import Server, bound
    from mmspec_server.service import Service

    screen = Screen()
    queue = DecodingQueue(settings.waiting)
    try:
        with bound(HOST, port) as listener:
            screen.progress("loading")
            engine = queue.call(setup.load)  # a framework may tie arrays to the thread
            for note in engine.notes:
                screen.note(note)
            service = Service(engine, setup.options, settings, queue)
            address = f"http://{HOST}:{listener.getsockname()[1]}"
            screen.note(f"{service.model} answers at {address}/v1; Ctrl-C ends the server")
            Server(service).run(sockets=[listener])
    finally:
        queue.close()
