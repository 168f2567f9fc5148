"""The page at `/` in a real Chromium, used as a person uses it."""

from contextlib import contextmanager
from io import BytesIO

import pytest
from PIL import Image

from mmspec.chat.options import Options
from support.bundled import SAMPLES
from support.live_server import CHAT, image_part, live, png, words
from support.scripted_engine import scripted_engine
from support.speaker import Speaker, in_parts

pytestmark = pytest.mark.slow
support = pytest.importorskip("support.browser", reason="selenium is not installed")
if support.MISSING:
    pytest.skip(f"{' and '.join(support.MISSING)} not installed", allow_module_level=True)

SHAPES = (SAMPLES / "shapes.png").read_bytes()
PNG = ("shapes.png", "image/png", SHAPES)
ENTER, ESCAPE, TAB, SHIFT = "\ue007", "\ue00c", "\ue004", "\ue008"


@pytest.fixture(scope="module")
def window():
    with support.browser() as it:
        yield it


@pytest.fixture
def page(window):
    """The window, empty; afterwards nothing may have been refused by the browser."""
    window.driver.get("about:blank")
    window.resize(1000, 900)
    window.complaints()
    yield window
    window.script("sessionStorage.clear()")
    refused = ("Content Security Policy", "TypeError", "ReferenceError", "TrustedHTML", "Uncaught")
    assert not [line for line in window.complaints() if any(word in line for word in refused)]


@pytest.fixture
def speaking(page, directory, monkeypatch):
    """Function that returns a context in which the page of a speaker's server is open."""

    @contextmanager
    def opened(speaker, **options):
        monkeypatch.setattr("mmspec_server.app.answer", speaker)
        long = Options(max_new_tokens=5000)
        with live(lambda: scripted_engine(directory), long, **options) as server:
            page.open(str(server.client.base_url))
            yield server

    return opened


@pytest.fixture
def speaker(speaking):
    """Answers on the open page."""
    speaker = Speaker()
    with speaking(speaker):
        yield speaker


def test_a_dropped_image_is_asked_about_tinted_and_raced(page, mini):
    """The text and the tint are those of the server's own parts; a race has the same text twice."""
    page.open(str(mini.client.base_url))
    assert page.text("#model") == page.driver.title.split(" · ")[0] == "mini"
    page.drop(PNG)
    page.ask("What is in this picture?")
    look = [image_part(SHAPES), words("What is in this picture?")]
    asked = [{"role": "user", "content": look}]
    chunks = mini.chunks(asked, mmspec={"details": True})
    parts = [chunk for chunk in chunks if "drafted" in chunk.get("mmspec", {})]
    texts = [chunk["choices"][0]["delta"]["content"] for chunk in parts]
    assert page.answers() == ["".join(texts)]
    assert "triangle" in page.answers()[0]
    tinted = "".join(str(e.get_property("textContent")) for e in page.all(".turn .drafted"))
    drafted = (t for t, each in zip(texts, parts, strict=True) if each["mmspec"]["drafted"])
    assert tinted.replace(" ", "") == "".join(drafted).replace(" ", "") != ""
    assert "accepted" in page.text(".turn .figures")
    assert len(page.all(".question img")) == 1
    assert page.race().startswith("Same text, ")
    speeds = [float(each.text) for each in page.all(".speed b")]
    ratio = float(page.text(".verdict").split()[2])
    assert ratio == pytest.approx(speeds[1] / speeds[0], abs=0.02, rel=0.05)
    assert not page.all(".lane:first-child .drafted")
    assert page.all(".lane:last-child .drafted")


def test_a_race_warms_both_up_leaves_the_conversation_and_says_where_texts_differ(page, speaker):
    page.ask("First?")
    assert page.race().startswith("Same text, and nothing was drafted")
    asked = [(options.max_new_tokens, plain) for _, options, plain in speaker.asked[1:]]
    assert asked == [(8, False), (8, True), *[(5000, True), (5000, False)] * 5]
    assert all(speaker.questions(index) == ["First?"] for index in range(13))
    page.ask("Second?")
    assert speaker.questions() == ["First?", "Second?"]
    speaker.plain_parts = ["one ", "too"]
    assert page.race().startswith("Other text from character 6 on")


def test_images_are_pasted_picked_scaled_and_taken_back(page, speaker, tmp_path):
    """Text that is copied with its picture is pasted as text; the sample is one click."""
    picture = ("screen.png", "image/png", png())
    assert not page.give("paste", picture, text="Name\tPrice")  # the browser pastes the text
    assert not page.all("#pictures li")
    assert page.give("paste", picture, text="screen.png")  # a copied file
    page.until(lambda: len(page.all("#pictures li")) == 1)
    picked = tmp_path / "picked.webp"
    image = Image.new("RGBA", (3000, 1500))  # transparent, which the server shows white
    image.paste("blue", (0, 0, 1500, 1500))
    image.save(picked)
    page.one("#files").send_keys(str(picked))
    page.until(lambda: len(page.all("#pictures li")) == 2)
    page.one("[aria-label='Remove screen.png']").click()
    page.ask("What?")
    [picture] = speaker.asked[-1][0].question.pictures
    assert picture.image.size == (2048, 1024)
    for place, white in ((9, 0), (2000, 255)):
        assert picture.image.getpixel((place, 9)) == pytest.approx((white, white, 255), abs=5)
    page.one("#new").click()
    page.one("#samples button").click()
    page.until(lambda: page.all("#pictures li"))
    page.ask("")
    [picture] = speaker.asked[-1][0].question.pictures
    assert picture.image.tobytes() == Image.open(BytesIO(SHAPES)).convert("RGB").tobytes()


def test_files_that_cannot_be_read_or_sent_are_named_and_nothing_is_lost(page, speaking):
    with speaking(Speaker(), max_pixels=1):
        page.one("#question").send_keys("What?")
        others = ("photo.heic", "image/heic", b"x"), ("a.pdf", "", b"x")
        page.give("drop", *others, PNG, ("broken.png", "image/png", SHAPES[:200]))
        page.until(lambda: page.text("#problem"))
        told = page.text("#problem")
        assert all(name in told for name in ("photo.heic", "a.pdf", "broken.png"))
        assert "shapes.png" not in told
        assert len(page.all("#pictures li")) == 1
        page.give("drop", ("large.png", "image/png", png(size=(1100, 1000))))
        page.until(lambda: len(page.all("#pictures li")) == 2)
        page.ask("")
        assert page.text(".turn .error").startswith("large.png: it has more than 1 million pixels")
        assert page.one("#question").get_property("value") == "What?"
        page.one("[aria-label='Remove large.png']").click()
        page.one("#ask").click()
        page.until(lambda: page.answers()[-1:] == ["one two"])


def test_an_answer_is_followed_and_stopped_and_the_conversation_goes_on(page, speaking):
    """The page follows it until the user scrolls back."""
    at_end = "const p = document.documentElement; return p.scrollHeight - innerHeight - scrollY < 2"
    speaker = Speaker([f"word{n}\n" for n in range(5000)], pause=0.02)
    page.resize(500, 400)
    with speaking(speaker):
        page.one("#question").send_keys("First?", ENTER)
        page.until(lambda: page.script("return scrollY") > 300)
        page.until(lambda: page.script(at_end))
        page.script("scrollTo(0, 50)")
        before = len(page.text(".turn .answer"))
        page.until(lambda: len(page.text(".turn .answer")) > before + 200)
        assert page.script("return scrollY") == 50
        page.type(ESCAPE)
        page.until(page.idle)
        assert speaker.closed.wait(30)
        [stopped] = page.answers()
        assert page.text(".turn .figures") == "stopped"
        speaker.parts = ["done"]
        page.ask("Second?")
        assert page.answers() == [stopped, "done"]
        [before] = speaker.asked[-1][0].before.turns
        assert before.answer_text.split() == stopped.replace("word", " word").split()


def test_a_key_is_asked_for_and_kept_in_memory_alone(page, speaking):
    with speaking(Speaker(), api_key="the key"):
        page.until(lambda: page.script("return document.activeElement.id") == "key")
        page.type("another", ENTER)
        page.until(lambda: page.text("#wrong"))
        page.type("the key", ENTER)
        page.until(lambda: page.text("#model"))
        page.type("What?", ENTER)
        page.until(lambda: page.answers() == ["one two"])
        stored = "return [localStorage.length, sessionStorage.length, document.cookie]"
        assert page.script(stored) == [0, 1, ""]
        texts = "sessionStorage.getItem('conversation') + document.documentElement.outerHTML"
        assert "the key" not in page.script(f"return {texts} + location.href")
        page.driver.refresh()
        page.until(lambda: page.one("#unlock").is_displayed())


def test_a_server_that_is_gone_is_told(page, speaking):
    """An answer that is asked for again stays."""
    with speaking(Speaker()):
        page.ask("First?")
    page.one(".retry").click()
    page.until(lambda: "does not answer" in page.text(".turn .error"))
    page.until(page.idle)
    assert page.one(".turn .answer").text == "one two"
    page.ask("What?")
    assert "does not answer" in page.text(".turn:last-child .error")
    assert page.one("#question").get_property("value") == "What?"


def test_the_keyboard_and_a_screen_reader_are_enough(page, speaker):
    assert page.script("return document.activeElement.id") == "question"
    page.type("A first line")
    page.one("#question").send_keys(SHIFT, ENTER, SHIFT, "and a second")
    page.type(ENTER)
    page.until(lambda: page.answers() == ["one two"])
    assert speaker.questions() == ["A first line\nand a second"]
    assert page.script("return document.activeElement.id") == "question"
    assert page.text("#status") == "Answer: one two"
    page.type(TAB, TAB, TAB, TAB)
    assert page.script("return document.activeElement.id") == "ask"
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [node for node in tree if not node["ignored"]]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in shown}
    controls = ("button", "textbox", "form", "main", "heading", "image")
    assert all(name for role, name in named if role in controls)
    assert {("textbox", "Question"), ("button", "Ask"), ("main", "Conversation")} <= named


def test_it_fits_a_phone(page, speaker):
    speaker.parts = ["Wordwithoutend" * 20, " and <b>more</b>\n```\n", "code " * 40, "\n```"]
    page.resize(320, 640)
    page.drop((f"{'name' * 30}.png", "image/png", SHAPES))
    page.one("#question").send_keys("long" * 60)
    page.race()
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")


def test_a_conversation_is_there_after_a_reload_and_a_new_one_forgets_it(page, speaker):
    """Settings stay; the last answer can be tried again."""
    page.one("#settings summary").click()
    page.one("#system").send_keys("Be brief.")
    page.one("#temperature").send_keys("0.5", TAB)
    page.drop(PNG)
    page.ask("First?")
    page.driver.refresh()
    page.until(lambda: page.text("#model"))
    assert page.answers() == ["one two"]
    page.ask("Second?")
    assert speaker.questions() == ["First?", "Second?"]
    prompt, options, _ = speaker.asked[-1]
    assert (prompt.before.system, options.sampling.temperature) == ("Be brief.", 0.5)
    assert len(prompt.before.turns[0].question.pictures) == 1
    speaker.parts = ["**other**"]
    page.one(".retry").click()
    page.until(page.idle)
    assert page.answers() == ["one two", "other"]
    assert speaker.questions() == ["First?", "Second?"]
    page.one("#new").click()
    page.driver.refresh()
    page.until(lambda: page.text("#model"))
    assert not page.all(".turn")


def test_a_second_user_sees_that_another_answer_is_running(page, speaking):
    with speaking(Speaker(["word "] * 400, pause=0.05)) as server:
        asked = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        with server.client.stream("POST", CHAT, json=asked) as first:
            lines = first.iter_lines()
            next(lines)
            page.one("#question").send_keys("What?", ENTER)
            page.until(lambda: "another answer is running" in page.text(".turn .figures"))
        page.until(lambda: "word word" in page.text(".turn .answer"))
        page.type(ESCAPE)
        page.until(page.idle)


HOSTILE = """<img src=x onerror="document.title='broken'"><script>document.title = 1</script>"""
HOSTILE += "<b>bold</b>\x1b[2J\x1b]0;broken\x07 &amp; \u202e back"
WRITTEN = """# A title
Some **bold**, *slanted* and `f(*args)`, a*b*c, __init__, snake_case_name.

1. Do this:

   ```bash
   for f in *.py; do echo $MY_VAR_* __init__; done
   ```
2. Then see https://example.com/_next_/a.js

| a | b |
|---|---|
| **1** | x_y_z |

- one
  - inner \\(x_1 * y_1\\)
- two <b>no tag</b> 2 * 3 * 4
3. three
"""
SHOWN = {
    "p.heading": ["A title"],
    "strong": ["bold", "1"],
    "em": ["slanted"],
    "p > code": ["f(*args)"],
    "pre": ["for f in *.py; do echo $MY_VAR_* __init__; done"],
    "td": ["1", "x_y_z"],
    "li li": ["inner \\(x_1 * y_1\\)"],
    "ol:last-child li": ["three"],
}


def test_text_of_the_model_is_only_text_and_markdown_is_shown(page, speaker):
    """Code is shown letter for letter, in whatever parts it comes."""
    speaker.parts, title = [HOSTILE], page.driver.title
    page.ask("<i>What?</i>")
    assert page.answers() == [HOSTILE.replace("\x1b", "␛").replace("\x07", "␇")]
    assert page.driver.title == title
    assert not page.all(".turn img, .turn script, .turn b, .turn i")
    assert page.text(".question p") == "<i>What?</i>"
    speaker.parts = in_parts(WRITTEN)
    page.ask("What?")
    for selector, texts in SHOWN.items():
        found = page.all(f".turn:last-child .answer {selector}")
        assert [str(each.get_property("textContent")) for each in found] == texts, selector
    assert "a*b*c, __init__, snake_case_name." in page.answers()[-1]
