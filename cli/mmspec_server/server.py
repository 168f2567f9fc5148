"""Runs a service on a port until a signal ends it."""

import asyncio
import logging
import socket
from contextlib import suppress

import uvicorn

from mmspec.ground.errors import UsageError
from mmspec_server.app import Service, create_app
from mmspec_server.endpoint import log

CUT_SECONDS = 5.0
"""Seconds after the grace in which a cut answer's last events are sent."""


class Server(uvicorn.Server):
    """Ends the running answer, or cuts it, before its connections close."""

    def __init__(self, service: Service) -> None:
        config = uvicorn.Config(
            create_app(service),
            lifespan="off",
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=256,  # connections; more get status 503
            timeout_graceful_shutdown=int(service.settings.grace + CUT_SECONDS),
        )
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests, give the running one its grace, and close."""
        queue, grace = self._service.queue, self._service.settings.grace
        if queue.jobs:
            log.warning("the running answer has %g s to end; Ctrl-C cuts it", grace)
        else:  # bodies that still come are refused anyway
            self.config.timeout_graceful_shutdown = int(CUT_SECONDS)
        queue.drain(grace)
        cutting = asyncio.create_task(self._cut_at_the_next_signal())
        await super().shutdown(sockets)
        cutting.cancel()
        # What is cut now, by a second Ctrl-C or a client that sent no more, is no failure to show.
        logging.getLogger("uvicorn.error").disabled = True

    async def _cut_at_the_next_signal(self) -> None:
        """Cut the running answer; newer Pythons wait for its connection even so."""
        while not self.force_exit:
            await asyncio.sleep(0.1)
        self._service.queue.drain(0)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; raises UsageError if another program does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()  # IPv4 too, as `addresses` says
    try:
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]
        raise UsageError(f"--host {host} --port {port}: {reason}; choose another") from error
    # Connections take this over. Without it a first token waits for the client's acknowledgement of
    # the headers, which comes 40 ms later.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def addresses(host: str, port: int) -> list[str]:
    """The addresses to open: this machine's own, then that of the network if it reaches it."""
    if host not in ("0.0.0.0", "::"):
        return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # of no network: RFC 5737 keeps it for examples
        return [f"http://{address}:{port}" for address in ("127.0.0.1", probe.getsockname()[0])]
    return [f"http://127.0.0.1:{port}"]
