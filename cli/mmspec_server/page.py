"""The page at `/`, for a browser: its files and the rules under which a browser shows them."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = {"/": "index.html"} | {
    f"/page/{file.name}": file.name for file in sorted(FOLDER.iterdir()) if file.suffix != ".html"
}
"""The file at each address; they are the same for everyone, so they need no key."""

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
"""What the page may do: use its own files, ask this server, and show the user's pictures."""

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """The addresses of the page's files, which are read once."""
    return [_route(address, FOLDER / name) for address, name in FILES.items()]


def _route(address: str, file: Path) -> Route:
    content = file.read_bytes()

    async def reply(_: Request) -> Response:
        return Response(content, headers=HEADERS, media_type=KINDS[file.suffix])

    return Route(address, reply)
