"""The page at `/`: its files, and the rules under which a browser shows them."""

import re
import tomllib
from pathlib import Path

from mmspec_server.app import FOLDER
from support.bundled import SAMPLES
from support.live_server import Live, live
from support.scripted_engine import scripted_engine

FILES = {"/": "index.html"} | {
    f"/page/{file.name}": file.name for file in FOLDER.iterdir() if file.suffix != ".html"
}
"""The file at each address."""
PICTURES = {f"/page/samples/{name}": name for name in ("shapes.png", "chart.png", "word.png")}
TEXTS = {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES.values()}


def test_every_file_comes_with_a_strict_policy(scripted: Live):
    """So a browser asks nobody else, runs no inline script and reads no text as HTML."""
    for address, name in FILES.items():
        reply = scripted.client.get(address)
        assert (reply.status_code, reply.text) == (200, TEXTS[name])
        rules = reply.headers["content-security-policy"].split("; ")
        policy = dict(rule.split(" ", 1) for rule in rules)
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
        assert policy["img-src"] == "'self' data:"
        assert policy["require-trusted-types-for"] == "'script'"
        assert not re.search(r"unsafe|\*", str(policy))
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"


def test_files_have_their_types_and_nothing_else_is_served(scripted: Live):
    files = {"/": "html", "/page/style.css": "css", "/page/main.js": "javascript"}
    for address, kind in files.items():
        types = scripted.client.get(address).headers["content-type"]
        assert types == f"text/{kind}; charset=utf-8"
        assert scripted.client.head(address).status_code == 200
        assert scripted.client.post(address, json={}).status_code == 405
    for address in ("/", "/nothing.js", "/../app.py", "/%2e%2e/app.py", "/samples/..%2fx"):
        assert scripted.client.get(f"/page{address}").status_code == 404


def test_the_page_needs_no_key_and_what_it_asks_does(directory):
    with live(lambda: scripted_engine(directory), api_key="the key") as server:
        get = server.client.get
        for address, name in PICTURES.items():
            reply = get(address)
            assert reply.content == (SAMPLES / name).read_bytes()
            assert reply.headers["content-type"] == "image/png"
        assert {get(address).status_code for address in FILES} == {200}
        assert get("/v1/models").status_code == 401
        assert get("/", headers={"Host": "evil.example"}).status_code == 403
        assert get("/page/main.js", headers={"Origin": "http://evil.example"}).status_code == 403


def test_the_page_comes_whole_with_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    [pattern] = project["tool"]["setuptools"]["package-data"]["mmspec_server"]
    assert {path.name for path in FOLDER.parent.glob(pattern)} == set(FILES.values())
    sources = re.findall(r'(?:src|href)="([^"]*)"', TEXTS["index.html"])
    files = {f"/{source}" for source in sources if not source.startswith("data:")}
    assert set(PICTURES) <= files <= {*FILES, *PICTURES}


def test_the_bundled_model_says_what_it_knows(mini: Live, scripted: Live):
    [card] = mini.client.get("/v1/models").json()["data"]
    assert "only the pictures that this project draws" in card["mmspec"]["note"]
    assert "mmspec" not in scripted.client.get("/v1/models").json()["data"][0]
