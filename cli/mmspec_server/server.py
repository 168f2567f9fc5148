"""Runs a service on a port until a signal ends it."""

import os
import socket

import uvicorn

from mmspec.ground.errors import UsageError
from mmspec_server.app import create_app
from mmspec_server.service import Service

CUT_SECONDS = 5.0
"""Seconds after the grace in which a cut answer's last events are sent."""

CONNECTIONS = 256
"""Open connections; uvicorn answers more with status 503."""


class Server(uvicorn.Server):
    """Ends the running answer, or cuts it, before its connections close."""

    def __init__(self, service: Service) -> None:
        grace = service.settings.grace_seconds
        config = uvicorn.Config(
            create_app(service),
            lifespan="off",
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=int(grace + CUT_SECONDS),
        )
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests, give the running one its grace, and close."""
        self._service.queue.drain(self._service.settings.grace_seconds)
        await super().shutdown(sockets)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; raises UsageError if another program does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        known = error.errno is not None and error.errno > 0  # names that resolve to nothing are not
        reason = os.strerror(error.errno or 0) if known else str(error.strerror or error)
        raise UsageError(f"--host {host} --port {port}: {reason}; choose another") from error
    # Connections take this over. Without it a first token waits for the client's acknowledgement of
    # the headers, which comes 40 ms later.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
