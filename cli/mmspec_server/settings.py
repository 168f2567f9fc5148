"""What the server allows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and times of a server."""

    waiting: int = 16
    """Requests that may wait for the one that is answered; more get status 429."""
    keep_alive_seconds: float = 10.0
    """Seconds without text after which a stream sends a comment."""
    grace_seconds: float = 10.0
    """Seconds that the running answer may take after SIGTERM before it is cut."""
    body_bytes: int = 32 * 2**20
    """Bytes of a request's body."""
    body_seconds: float = 60.0
    """Seconds in which a request's body must arrive."""
    images: int = 16
    """Images of one request."""
    conversations: int = 8
    """Conversations whose caches are kept."""
    cache_bytes: int = 2 * 2**30
    """Bytes of all caches that are kept."""
