"""The options of `mmspec serve` that choose who is answered, and within which limits."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mmspec_server.access import Access
    from mmspec_server.app import Limits
    from mmspec_server.images import ImageReader

HOST = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; one that other machines reach needs --api-key.",
)
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

KEY = click.option(
    "--api-key",
    default="",
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
    show_default=True,
    metavar="MB",
    help="Largest body of a request, in megabytes.",
)
IMAGES = click.option(
    "--max-images",
    type=click.IntRange(0, 1000),
    default=16,
    show_default=True,
    help="Most images of a request.",
)
PIXELS = click.option(
    "--max-pixels",
    type=click.IntRange(1, 178),
    default=50,
    show_default=True,
    metavar="MILLIONS",
    help="Most pixels of an image, in millions.",
)
CONVERSATIONS = click.option(
    "--conversations",
    type=click.IntRange(0, 1000),
    default=8,
    show_default=True,
    help="Conversations whose caches are kept for their next requests.",
)
CACHE = click.option(
    "--cache",
    type=click.IntRange(0, 1_000_000),
    default=2048,
    show_default=True,
    metavar="MB",
    help="Most memory of the caches that are kept.",
)
LISTENING = (HOST, PORT, KEY, HOSTS, ORIGINS)
LIMITS = (QUEUE, GRACE, CONVERSATIONS, CACHE, DOMAINS, ROOT, BODY, IMAGES, PIXELS)


def access_of(values: dict[str, Any]) -> "Access":
    """Who is answered; takes its options out of `values`."""
    from mmspec_server.access import Access

    return Access(
        values.pop("host"), values.pop("api_key"), values.pop("names"), values.pop("origins")
    )


def limits_of(values: dict[str, Any]) -> "Limits":
    """Limits and times; takes their options out of `values`."""
    from mmspec_server.app import Limits

    return Limits(
        waiting=values.pop("queue"),
        grace_seconds=values.pop("grace"),
        body_bytes=values.pop("max_body") * 2**20,
        images=values.pop("max_images"),
        conversations=values.pop("conversations"),
        cache_bytes=values.pop("cache") * 2**20,
    )


def reader_of(values: dict[str, Any]) -> "ImageReader":
    """Which images are opened; takes their options out of `values`."""
    from mmspec_server.images import MEGA, ImageReader

    return ImageReader(
        pixels=values.pop("max_pixels") * MEGA,
        domains=values.pop("domains"),
        root=values.pop("media_root"),
    )
