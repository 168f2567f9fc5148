"""`mmspec serve`: an HTTP server that speaks OpenAI's API."""

from functools import partial
from importlib import import_module
from pathlib import Path
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from mmspec.ground.errors import not_installed
from mmspec_cli.terminal.interrupt import ending_handled
from mmspec_terminal.help_pages import EverydayCommand
from mmspec_terminal.options import CAPTIONER, DECODING, DRAFT, MODELS, PLACE, together
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup, decoding_options

if TYPE_CHECKING:
    from mmspec.chat.engine import Engine
    from mmspec_server.access import Access
    from mmspec_server.app import Limits
    from mmspec_server.decoding_queue import DecodingQueue
    from mmspec_server.images import ImageReader
    from mmspec_server.server import Server

HOST = click.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; one that other machines reach needs --api-key.",
)
PORT = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8585,
    help="Port to listen on; 0 takes a free one.",
)
QUEUE = click.option(
    "--queue",
    type=click.IntRange(0, 10_000),
    default=16,
    help="Requests that may wait for the one that is answered; more get status 429.",
)
GRACE = click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=10.0,
    help="Seconds that the running answer may take after SIGTERM or Ctrl-C before it is cut.",
)

KEY = click.option(
    "--api-key",
    default="",
    show_default=False,
    envvar="MMSPEC_API_KEY",
    metavar="KEY",
    help="Answer only requests with this key. Also read from MMSPEC_API_KEY, which other users of "
    "the machine cannot see.",
)
HOSTS = click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name of this server in the Host header, beside its address and localhost.",
)
ORIGINS = click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A web page that may ask, such as http://localhost:3000.",
)
DOMAINS = click.option(
    "--allow-url",
    "domains",
    multiple=True,
    metavar="DOMAIN",
    help="Fetch images from this domain, at public addresses only. Default: none is fetched.",
)
ROOT = click.option(
    "--media-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Read images that a request names with a file: URL, inside DIR. Default: none is read.",
)
BODY = click.option(
    "--max-body",
    type=click.IntRange(1, 1024),
    default=32,
    metavar="MB",
    help="Largest body of a request, in megabytes.",
)
IMAGES = click.option(
    "--max-images",
    type=click.IntRange(0, 1000),
    default=16,
    help="Most images of a request.",
)
PIXELS = click.option(
    "--max-pixels",
    type=click.IntRange(1, 178),
    default=50,
    metavar="MILLIONS",
    help="Most pixels of an image, in millions.",
)
CONVERSATIONS = click.option(
    "--conversations",
    type=click.IntRange(0, 1000),
    default=8,
    help="Conversations whose caches are kept for their next requests.",
)
CACHE = click.option(
    "--cache",
    type=click.IntRange(0, 1_000_000),
    default=2048,
    metavar="MB",
    help="Most memory of the caches that are kept.",
)
LISTENING = (HOST, PORT, KEY, HOSTS, ORIGINS)
LIMITS = (QUEUE, GRACE, CONVERSATIONS, CACHE, DOMAINS, ROOT, BODY, IMAGES, PIXELS)


@click.command(cls=EverydayCommand)
@click.argument("model", default="auto", metavar="[MODEL]")
@together(*LISTENING, *LIMITS)
@together(DRAFT, PLACE, CAPTIONER, DECODING)
def serve(port: int, **values: Any) -> None:
    """Answer browsers and programs that speak OpenAI's API, until Ctrl-C or SIGTERM.

    MODEL is a name, repository or directory, as `--model` of `mmspec chat`. Temperature, top-p,
    seed and the number of tokens apply where a request names none.
    """
    _require_packages()
    from mmspec_server.app import Service
    from mmspec_server.decoding_queue import DecodingQueue
    from mmspec_server.server import Server, bound, share_one_heap

    share_one_heap()
    access, limits, reader = _limits(values)
    models = {name: values.pop(name) for name in MODELS}
    setup = Setup(models, decoding_options(values))
    queue = DecodingQueue(limits.waiting)
    try:
        with bound(access.host, port) as listener:
            screen = Screen()
            engine = _loaded(setup, queue, screen)
            service = Service(engine, setup.options, limits, queue, reader, access)
            address = f"http://{access.host}:{listener.getsockname()[1]}"
            screen.note(
                f"{service.model} answers at {address}/v1, and browsers at {address}; "
                "Ctrl-C ends the server"
            )
            _run(Server(service), listener)
    finally:
        queue.close()


def _run(server: "Server", listener: socket) -> None:
    """Serve until a signal: SIGTERM and SIGHUP let the running answer end, and set the status."""
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        server.should_exit = True

    with ending_handled(end):
        server.run(sockets=[listener])
    if received:
        raise SystemExit(128 + received[0])


def _require_packages() -> None:
    try:
        import_module("mmspec_server.server")
    except ModuleNotFoundError as error:
        raise not_installed("mmspec serve", error, "server") from error


def _loaded(setup: Setup, queue: "DecodingQueue", screen: Screen) -> "Engine":
    """The models, loaded on the decoding thread: a framework may tie arrays to a thread."""
    engine = queue.call(partial(setup.load, screen.progress))
    for note in engine.notes:
        screen.note(note)
    return engine


def _limits(
    values: dict[str, Any],
) -> tuple["Access", "Limits", "ImageReader"]:
    """Who is answered, how much, and which images are opened; takes the options out of `values`."""
    from mmspec_server.access import Access
    from mmspec_server.app import Limits
    from mmspec_server.images import MEGA, ImageReader

    take = values.pop
    access = Access(take("host"), take("api_key"), take("names"), take("origins"))
    limits = Limits(
        waiting=take("queue"),
        grace_seconds=take("grace"),
        body_bytes=take("max_body") * 2**20,
        images=take("max_images"),
        conversations=take("conversations"),
        cache_bytes=take("cache") * 2**20,
    )
    pixels, domains, root = take("max_pixels") * MEGA, take("domains"), take("media_root")
    return access, limits, ImageReader(pixels=pixels, domains=domains, root=root)
