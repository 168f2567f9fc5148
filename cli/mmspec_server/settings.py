"""The options of `mmspec serve`. The command line is generated from the fields of this class."""

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from mmspec.ground.errors import UsageError
from mmspec.ground.settings import Settings, option

ORIGIN = r"null|(?!http://.*:80$|https://.*:443$)[a-z][-+.a-z0-9]*://[^/*A-Z]+"
"""An origin as browsers send it: lower case, and no port that the scheme has anyway."""


@dataclass(frozen=True)
class ServerSettings(Settings):
    """Where a server listens, whom it answers, and its limits.

    Raises UsageError for a host that others reach without a key.
    """

    host: str = option(
        "127.0.0.1", "Address to listen on; one that other machines reach needs --api-key."
    )
    port: int = option(8585, "Port to listen on; 0 takes a free one.", least=0, most=65535)
    api_key: str | None = option(
        None,
        "Answer only requests with this key. Also read from MMSPEC_API_KEY, which other users of "
        "the machine cannot see.",
        metavar="KEY",
        envvar="MMSPEC_API_KEY",
    )
    allow_host: tuple[str, ...] = option(
        (), "A name of this server in the Host header, beside its address.", metavar="NAME"
    )
    allow_origin: tuple[str, ...] = option(
        (), "A web page that may ask, such as http://localhost:3000.", metavar="ORIGIN"
    )
    queue: int = option(
        16, "Requests that may wait for another; more get status 429.", least=0, most=10_000
    )
    grace: float = option(
        10.0, "Seconds that a running answer has after SIGTERM or Ctrl-C.", least=0, most=3600
    )
    system: str = option(
        "", "System text of requests that bring none. Default: none.", metavar="TEXT"
    )
    conversations: int = option(
        8, "Conversations whose caches are kept for their next requests.", least=0, most=1000
    )
    cache: int = option(
        2048, "Most memory of the caches that are kept.", least=0, most=1_000_000, metavar="MB"
    )
    isolate: bool = option(
        False,
        "No request uses text, images or caches of another, so that speed does not tell them.",
    )
    allow_url: tuple[str, ...] = option(
        (), "Fetch images from this domain, at public addresses only.", metavar="DOMAIN"
    )
    media_root: Path | None = option(
        None, "Read images of file: URLs inside DIR. Default: none.", metavar="DIR", exists=True
    )
    max_body: float = option(
        32, "Largest body of a request, in megabytes.", least=1, most=1024, metavar="MB"
    )
    max_images: int = option(16, "Most images of a request.", least=0, most=1000)
    max_pixels: float = option(
        50, "Most pixels of an image, in millions.", least=1, most=178, metavar="MILLIONS"
    )
    thinking: bool | None = None
    """Whether the model thinks where a request does not say; None leaves it to the template."""
    silence: float = 10.0
    """Seconds without text after which a stream sends a comment."""
    body_seconds: float = 60.0
    """Seconds in which a request's body must arrive."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.api_key is not None and not re.fullmatch("[!-~]([ -~]*[!-~])?", self.api_key):
            raise UsageError(
                f"--api-key {self.api_key!r}: give ASCII letters, digits and signs, no outer "
                "space, or leave it and MMSPEC_API_KEY out"
            )
        for origin in self.allow_origin:
            if not re.fullmatch(ORIGIN, origin):
                raise UsageError(
                    f"--allow-origin {origin!r}: give the scheme, name and port of one page, such "
                    "as http://localhost:3000, without capitals and a usual port"
                )
        for host in self.allow_host:
            if not name_in(host) or re.search("[*/]", host):
                raise UsageError(f"--allow-host {host!r}: give a name, such as box.local")
        for domain in self.allow_url:
            if domain != name_in(domain) or domain[:1] in ("", "*"):
                raise UsageError(f"--allow-url {domain!r}: give one name alone, without capitals")
        if not is_loopback(self.host) and not self.api_key:
            raise UsageError(
                f"--host {self.host} is reachable from other machines: give --api-key too, or set "
                "MMSPEC_API_KEY"
            )


def name_in(host: str) -> str:
    """The name in a Host header, without capitals and port; empty if there is none."""
    with suppress(ValueError):
        return host.lower() if is_address(host) else urlsplit(f"//{host}").hostname or ""
    return ""


def is_loopback(name: str) -> bool:
    """True for the addresses and the name under which only this machine reaches itself."""
    return name.lower() == "localhost" or (is_address(name) and ip_address(name).is_loopback)


def is_address(name: str) -> bool:
    """True for an IP address."""
    with suppress(ValueError):
        return bool(ip_address(name))
    return False
