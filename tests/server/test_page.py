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
PAGE = TEXTS["index.html"]
SCRIPTS = "".join(text for name, text in TEXTS.items() if name.endswith(".js"))
SOURCES = re.findall(r'(?:src|href)="([^"]*)"', PAGE)


def test_every_file_comes_with_a_strict_policy(scripted: Live):
    for address, name in FILES.items():
        reply = scripted.client.get(address)
        assert (reply.status_code, reply.text) == (200, TEXTS[name])
        policy = dict(
            rule.split(" ", 1) for rule in reply.headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
        assert policy["img-src"] == "'self' data:"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in str(policy)
        assert "*" not in str(policy)
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


def test_nothing_is_asked_of_others():
    without_icon = PAGE.replace("xmlns='http://www.w3.org/2000/svg'", "")
    scripts = SCRIPTS.replace(r"\((https?:[^\s()]+)\)/y", "")  # links of answers, which users click
    for text in (without_icon, TEXTS["style.css"], scripts):
        assert not re.search(r"https?:|[\"'(]//|@import|url\(", text)
    files = {f"/{source}" for source in SOURCES if not source.startswith("data:")}
    assert set(PICTURES) <= files <= {*FILES, *PICTURES}
    imported = re.findall(r'from "\./([\w.]+)"', SCRIPTS)
    assert {"main.js", "style.css", "index.html", *imported} == set(TEXTS)


def test_the_policy_has_nothing_to_refuse():
    assert not re.search(r"<style|<script(?![^>]* src=)|<[^>]*\s(?:style|on\w+)=", PAGE)


def test_text_is_never_read_as_html_and_nothing_outlives_the_tab():
    sinks = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|srcdoc|DOMParser"
    )
    stores = r"localStorage|indexedDB|document\.cookie|caches\."
    assert not re.search(f"{sinks}|{stores}", SCRIPTS)
    assert [name for name, text in TEXTS.items() if "sessionStorage" in text] == ["history.js"]


def test_the_page_needs_no_key_and_what_it_asks_does(directory):
    with live(lambda: scripted_engine(directory), api_key="the key") as server:
        for address, name in PICTURES.items():
            reply = server.client.get(address)
            assert reply.content == (SAMPLES / name).read_bytes()
            assert reply.headers["content-type"] == "image/png"
        assert {server.client.get(address).status_code for address in FILES} == {200}
        assert server.client.get("/v1/models").status_code == 401
        foreign = {"Host": "evil.example"}
        assert server.client.get("/", headers=foreign).status_code == 403
        framed = {"Origin": "http://evil.example"}
        assert server.client.get("/page/main.js", headers=framed).status_code == 403


def test_the_page_comes_with_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    [pattern] = project["tool"]["setuptools"]["package-data"]["mmspec_server"]
    assert {path.name for path in FOLDER.parent.glob(pattern)} == set(FILES.values())


def test_the_bundled_model_says_what_it_knows(mini: Live, scripted: Live):
    [card] = mini.client.get("/v1/models").json()["data"]
    assert "only the pictures that this project draws" in card["mmspec"]["note"]
    assert "mmspec" not in scripted.client.get("/v1/models").json()["data"][0]
