"""The page at `/` in a real Chromium, used as a person uses it."""

from contextlib import contextmanager
from io import BytesIO
from itertools import repeat
from pathlib import Path
from threading import Event as Flag
from time import sleep

import pytest
from PIL import Image

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec_server.answers import Finished, Fragment, Text
from support.bundled import SAMPLES
from support.commands import start_process
from support.live_server import CHAT, data_url, live, png, text_of, words
from support.scripted_engine import scripted_engine

pytestmark = pytest.mark.slow
support = pytest.importorskip("support.browser", reason="selenium is not installed")
if support.MISSING:
    pytest.skip(f"{' and '.join(support.MISSING)} not installed", allow_module_level=True)

SHAPES = (SAMPLES / "shapes.png").read_bytes()
PNG = ("shapes.png", "image/png", SHAPES)
LOOK = [words("What is in this picture?")]
LONG = Options(max_new_tokens=5000)
ALLOWED = ["clipboardReadWrite", "clipboardSanitizedWrite"]
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
    window.prefer("light")
    window.complaints()
    yield window
    window.script("sessionStorage.clear()")
    refused = ("Content Security Policy", "TypeError", "ReferenceError", "TrustedHTML", "Uncaught")
    assert not [line for line in window.complaints() if any(word in line for word in refused)]


@pytest.fixture(scope="module")
def drafting():
    """A server of the bundled pair that drafts in every round."""
    options = Options(max_new_tokens=60, gamma=4)
    with live(lambda: load("mini", backend="torch"), options) as server:
        yield server


class Speaker:
    """Answers in place of a model, one part at a time, and remembers what it was asked."""

    def __init__(self, parts=("one ", "two"), pause=0.0):
        self.parts, self.pause = parts, pause
        self.asked, self.closed, self.plain_parts = [], Flag(), None
        self.seconds, self.cached = 0.01, repeat(6)
        self.read, self.go_on = (), Flag()

    def __call__(self, cache, prompt, options, *, plain=False):
        self.asked.append((prompt, options, plain))
        statistics = Statistics(prompt_tokens=7, cached_tokens=next(self.cached))
        try:
            for done in self.read:
                yield Prefilled(done, self.read[-1])
                assert self.go_on.wait(30)
                self.go_on.clear()
            parts = self.plain_parts if plain and self.plain_parts else self.parts
            for number, part in enumerate(parts[: options.max_new_tokens]):
                sleep(self.pause)
                statistics.tokens += 1
                statistics.rounds += 1
                statistics.seconds["decode"] += self.seconds
                yield Text([Fragment(part, drafted=not plain and number % 2 == 0)])
            yield Finished("stop", statistics)
        finally:
            self.closed.set()

    def questions(self, index=-1):
        """The texts of the user's turns of one request."""
        prompt, _, _ = self.asked[index]
        turns = [*(turn.question for turn in prompt.before.turns), prompt.question]
        return [part for turn in turns for part in turn.parts if isinstance(part, str)]


@contextmanager
def speaking(directory, monkeypatch, speaker, **options):
    monkeypatch.setattr("mmspec_server.app.answer", speaker)
    with live(lambda: scripted_engine(directory), LONG, **options) as server:
        yield server


@pytest.fixture
def speaker():
    return Speaker()


@pytest.fixture
def spoken(directory, monkeypatch, speaker):
    with speaking(directory, monkeypatch, speaker) as server:
        yield server


def address(server):
    return str(server.client.base_url)


def described(server):
    """What the server answers about the sample, with the origin of every part."""
    content = [{"type": "image_url", "image_url": {"url": data_url(SHAPES)}}, *LOOK]
    asked = [{"role": "user", "content": content}]
    chunks = server.chunks(asked, mmspec={"details": True})
    return [
        (chunk["choices"][0]["delta"]["content"], chunk["mmspec"]["drafted"])
        for chunk in chunks
        if "drafted" in chunk.get("mmspec", {})
    ]


def test_a_dropped_image_is_asked_about_and_drafted_text_is_tinted(page, drafting):
    page.open(address(drafting))
    assert page.text("#model") == page.driver.title.split(" · ")[0] == "mini"
    assert page.give("dragover", PNG)
    assert page.script("return 'drop' in document.body.dataset")
    assert page.give("drop", PNG)
    page.until(lambda: page.all("#pictures img"))
    assert "shapes.png 119 kB" in page.text("#pictures li")
    page.ask("What is in this picture?")
    parts = described(drafting)
    assert page.answers() == ["".join(text for text, _ in parts)]
    assert "triangle" in page.answers()[0]
    tinted = "".join(str(e.get_property("textContent")) for e in page.all(".turn .drafted"))
    drafted = "".join(text for text, was in parts if was)
    assert tinted.replace(" ", "") == drafted.replace(" ", "") != ""
    figures = page.text(".turn .figures")
    assert all(word in figures for word in ("tokens in", "/s", "first after", "tokens/round"))
    assert all(word in figures for word in ("accepted", "cached +", "new", "peak"))
    assert not page.all("#pictures img")
    assert len(page.all(".question img")) == 1


def test_text_that_is_copied_with_its_picture_is_pasted_as_text(page, spoken):
    page.open(address(spoken))
    picture = ("image.png", "image/png", png())
    assert not page.give("paste", picture, text="Name\tPrice")  # the browser pastes the text
    assert not page.all("#pictures li")
    assert page.give("paste", picture, text="image.png")  # a copied file
    page.until(lambda: page.all("#pictures li"))


def test_images_are_pasted_picked_and_taken_back(page, spoken, speaker, tmp_path):
    page.open(address(spoken))
    assert page.give("paste", ("screen.png", "image/png", png()))
    page.until(lambda: len(page.all("#pictures li")) == 1)
    picked = tmp_path / "picked.png"
    picked.write_bytes(png("blue"))
    page.one("#files").send_keys(str(picked))
    page.until(lambda: len(page.all("#pictures li")) == 2)
    page.one("[aria-label='Remove screen.png']").click()
    assert len(page.all("#pictures li")) == 1
    page.one("#files").send_keys(str(picked))
    page.until(lambda: len(page.all("#pictures li")) == 2)
    page.ask("What?")
    prompt, _, _ = speaker.asked[0]
    pixels = [Image.new("RGB", (64, 48), "blue").tobytes()] * 2
    assert [picture.image.tobytes() for picture in prompt.question.pictures] == pixels


def test_files_that_cannot_be_read_are_named_and_nothing_is_lost(page, spoken):
    page.open(address(spoken))
    page.one("#question").send_keys("What?")
    broken = ("broken.png", "image/png", SHAPES[:200])
    page.give("drop", ("photo.heic", "image/heic", b"x"), ("a.pdf", "", b"x"), PNG, broken)
    page.until(lambda: page.text("#problem"))
    told = page.text("#problem")
    assert "photo.heic is of a kind that this browser cannot open: save it as JPEG" in told
    assert "a.pdf is no picture: drop a PNG" in told
    assert "broken.png is damaged or empty: open it in another program and save it" in told
    assert "shapes.png" not in page.text("#problem")
    assert len(page.all("#pictures li")) == 1
    assert page.one("#question").get_property("value") == "What?"
    assert not page.give("drop")


def test_a_long_prompt_is_seen_to_be_read(page, spoken, speaker):
    speaker.read = (512, 1024, 1200)
    page.open(address(spoken))
    page.one("#question").send_keys("What?", ENTER)
    for words_ in ("reads 512 of 1200 tokens", "reads 1024 of 1200 tokens"):
        page.until(lambda expected=words_: page.text(".turn .figures") == expected)
        speaker.go_on.set()
    page.until(lambda: not page.text(".turn .figures"))
    speaker.go_on.set()
    page.until(page.idle)
    assert page.answers() == ["one two"]
    assert len(page.all(".turn .figures")) == 1


def test_an_answer_is_stopped_and_the_conversation_goes_on(page, directory, monkeypatch):
    speaker = Speaker([f"word{n} " for n in range(5000)], pause=0.05)
    with speaking(directory, monkeypatch, speaker) as server:
        page.open(address(server))
        page.one("#question").send_keys("First?", ENTER)
        page.until(lambda: "word3" in page.text(".turn .answer"))
        assert page.one(".turn .answer").get_attribute("aria-busy") == "true"
        page.one("#stop").click()
        page.until(page.idle)
        stopped = page.answers()[0]
        assert speaker.closed.wait(30)
        assert stopped.startswith("word0 word1")
        assert len(stopped.split()) < 5000
        assert page.text(".turn .figures") == "stopped"
        assert page.one(".turn .answer").get_attribute("aria-busy") == "false"
        speaker.parts = ["done"]
        page.ask("Second?")
        assert page.answers() == [stopped, "done"]
        assert speaker.questions() == ["First?", "Second?"]
        [before] = speaker.asked[-1][0].before.turns
        assert before.answer_text == stopped


def test_a_race_says_how_fast_and_whether_the_text_is_the_same(page, drafting):
    page.open(address(drafting))
    page.give("drop", PNG)
    page.until(lambda: page.all("#pictures img"))
    page.one("#question").send_keys("What is in this picture?")
    page.one("#race").click()
    page.until(lambda: page.text(".verdict"))
    page.until(page.idle)
    plain, drafted = page.answers()
    assert plain == drafted == "".join(text for text, _ in described(drafting))
    assert page.text(".verdict").startswith("Same text, ")
    assert page.text(".verdict").endswith("the speed")
    speeds = [float(each.text) for each in page.all(".speed b")]
    assert min(speeds) > 0
    assert float(page.text(".verdict").split()[2]) == pytest.approx(speeds[1] / speeds[0], abs=0.02)
    one, other = (str(each.get_property("textContent")) for each in page.all(".lane .figures"))
    rounds, tokens = one.split()[0], one.split()[3]
    assert rounds == tokens
    assert int(other.split()[0]) < int(rounds)
    assert other.split()[3] == tokens
    assert "no drafting" in one
    assert "accepted" in other
    assert not page.all(".lane:first-child .drafted")
    assert page.all(".lane:last-child .drafted")
    total = drafting.service.cache._chats[-1].chat.answer.statistics.prompt_tokens
    assert f"prompt's {total} tokens {total - 1} were in the cache every" in page.text(".method")
    replay = next(button for button in page.all(".turn button") if "Replay" in button.text)
    replay.click()
    page.until(lambda: page.answers() == [plain, drafted])


def test_a_race_of_the_last_question_warms_both_up_and_leaves_the_conversation(
    page, spoken, speaker
):
    page.open(address(spoken))
    page.ask("First?")
    page.one("#race").click()
    page.until(lambda: page.text(".verdict"))
    page.until(page.idle)
    asked = [(options.max_new_tokens, plain) for _, options, plain in speaker.asked[1:]]
    assert asked == [(8, False), (8, True), *[(5000, True), (5000, False)] * 5]
    assert all(speaker.questions(index) == ["First?"] for index in range(13))
    assert "5 times each, in turn; the speeds are medians" in page.text(".method")
    assert page.text(".verdict") == "Same text, and nothing was drafted (this server has no draft)"
    page.ask("Second?")
    assert speaker.questions() == ["First?", "Second?"]


def test_a_race_whose_texts_differ_says_where(page, spoken, speaker):
    speaker.plain_parts = ["one ", "too"]
    page.open(address(spoken))
    page.one("#question").send_keys("What?")
    page.one("#race").click()
    page.until(lambda: page.text(".verdict"))
    assert page.text(".verdict").startswith("Other text from character 6 on")
    assert "error" in page.one(".verdict").get_attribute("class")


def test_a_key_is_asked_for_and_kept_in_memory_alone(page, directory, monkeypatch, speaker):
    with speaking(directory, monkeypatch, speaker, api_key="the key") as server:
        page.open(address(server))
        page.until(lambda: page.script("return document.activeElement.id") == "key")
        page.type("another", ENTER)
        page.until(lambda: page.text("#wrong"))
        page.type("the key", ENTER)
        page.until(lambda: page.text("#model"))
        assert not page.one("#unlock").is_displayed()
        assert page.script("return document.activeElement.id") == "question"
        page.type("What?", ENTER)
        page.until(lambda: page.answers() == ["one two"])
        stored = "return [localStorage.length, sessionStorage.length, document.cookie]"
        assert page.script(stored) == [0, 1, ""]
        assert "the key" not in page.script("return sessionStorage.getItem('conversation')")
        assert "the key" not in page.script("return document.documentElement.outerHTML")
        assert "the key" not in page.script("return location.href")
        page.driver.refresh()
        page.until(lambda: page.one("#unlock").is_displayed())
        page.one("#question").send_keys("What?", ENTER)
        page.until(lambda: page.all(".turn .error"))
        assert page.one("#question").get_property("value") == "What?"


HOSTILE = (
    "<img src=x onerror=\"document.title='broken'\">",
    "<script>document.title = 'broken'</script><b>bold</b>",
    "\x1b[2J\x1b]0;broken\x07 &amp; \u202e back",
)


def test_text_of_the_model_is_only_text(page, spoken, speaker):
    speaker.parts = HOSTILE
    page.open(address(spoken))
    title = page.driver.title
    page.ask("<i>What?</i>")
    expected = "".join(HOSTILE).replace("\x1b", "␛").replace("\x07", "␇")
    assert page.answers() == [expected]
    assert page.driver.title == title
    assert not page.all(".turn img, .turn script, .turn b, .turn i")
    assert page.text(".question p") == "<i>What?</i>"
    page.one("#race").click()
    page.until(lambda: page.text(".verdict"))
    assert page.answers() == [expected] * 3


def test_a_refusal_names_the_picture_and_the_question_comes_back(page, directory, monkeypatch):
    with speaking(directory, monkeypatch, Speaker(), max_pixels=1) as server:
        page.open(address(server))
        page.give("drop", ("large.png", "image/png", png(size=(1100, 1000))))
        page.until(lambda: page.all("#pictures li"))
        page.ask("What?")
        assert page.text(".turn .error") == "large.png: it has more than 1 million pixels"
        assert page.one("#question").get_property("value") == "What?"
        page.one("[aria-label='Remove large.png']").click()
        page.one("#ask").click()
        page.until(lambda: page.answers()[-1:] == ["one two"])


def endless(arguments):
    """Serve, at a port, answers that go on until the process is killed."""
    directory, port_file = map(Path, arguments)
    with (
        pytest.MonkeyPatch.context() as patch,
        speaking(directory, patch, Speaker(["word "] * 5000, pause=0.05)) as server,
    ):
        port_file.write_text(address(server))
        sleep(120)
    return 0


def test_a_server_that_is_gone_in_mid_answer_is_told(page, directory, tmp_path):
    told = tmp_path / "address"
    process = start_process(endless, [str(directory), str(told)])
    try:
        page.until(lambda: told.exists() and told.read_text())
        page.open(told.read_text())
        page.one("#question").send_keys("What?", ENTER)
        page.until(lambda: "word word" in page.text(".turn .answer"))
    finally:
        process.kill()
    page.until(page.idle)
    assert "connection ended before the answer did" in page.text(".turn .error")
    assert page.answers()[0].startswith("word word")
    assert page.one("#question").get_property("value") == "What?"
    page.one("#ask").click()
    page.until(lambda: "does not answer" in page.text(".turn:last-child .error"))
    assert page.one("#question").get_property("value") == "What?"


def test_the_keyboard_and_a_screen_reader_are_enough(page, spoken, speaker):
    page.open(address(spoken))
    assert page.script("return document.activeElement.id") == "question"
    page.type("A first line")
    page.one("#question").send_keys(SHIFT, ENTER, SHIFT, "and a second")
    page.type(ENTER)
    page.until(lambda: page.answers() == ["one two"])
    assert speaker.questions() == ["A first line\nand a second"]
    assert page.script("return document.activeElement.id") == "question"
    assert page.text("#status") == "Answer: one two"
    assert page.one("#status").get_attribute("role") == "status"
    reached = []
    for _ in range(4):
        page.type(TAB)
        reached.append(page.script("return document.activeElement.id"))
    assert reached == ["files", "choose", "race", "ask"]
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [node for node in tree if not node["ignored"]]
    controls = ("button", "textbox", "form", "main", "heading", "image")
    named = {
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in shown
        if node["role"]["value"] in controls
    }
    assert all(name for _, name in named)
    assert {("textbox", "Question"), ("button", "Ask"), ("button", "Race")} <= named
    assert {("heading", "Question"), ("heading", "Answer"), ("main", "Conversation")} <= named
    page.one("#ask").click()
    assert not page.one("#question").get_property("validity")["valid"]
    assert len(page.all(".turn")) == 1


def test_the_page_follows_an_answer_until_the_user_scrolls_back(page, directory, monkeypatch):
    at_end = "const p = document.documentElement; return p.scrollHeight - innerHeight - scrollY < 2"
    with speaking(directory, monkeypatch, Speaker(["line\n"] * 5000, pause=0.02)) as server:
        page.resize(500, 400)
        page.open(address(server))
        page.one("#question").send_keys("What?", ENTER)
        page.until(lambda: page.script("return scrollY") > 300)
        page.until(lambda: page.script(at_end))
        page.script("scrollTo(0, 50)")
        before = len(page.text(".turn .answer"))
        page.until(lambda: len(page.text(".turn .answer")) > before + 200)
        assert page.script("return scrollY") == 50
        page.script("scrollTo(0, document.documentElement.scrollHeight)")
        before = len(page.text(".turn .answer"))
        page.until(lambda: len(page.text(".turn .answer")) > before + 200)
        page.until(lambda: page.script(at_end))
        page.type(ESCAPE)
        page.until(page.idle)


def pixels(page, path):
    page.driver.save_screenshot(str(path))
    return Image.open(path).convert("L")


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_it_fits_a_phone_in_light_and_dark(page, spoken, speaker, tmp_path, scheme, dark):
    speaker.parts = ["Wordwithoutend" * 20, " and <b>more</b>\n```\n", "code " * 40, "\n```"]
    page.resize(320, 640)
    page.prefer(scheme)
    page.open(address(spoken))
    page.give("drop", (f"{'name' * 30}.png", "image/png", SHAPES))
    page.until(lambda: page.all("#pictures img"))
    page.one("#question").send_keys("long" * 60)
    page.one("#race").click()
    page.until(lambda: page.text(".verdict"))
    page.until(page.idle)
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    lanes = [each.rect for each in page.all(".lane")]
    assert lanes[0]["x"] == lanes[1]["x"]
    assert lanes[0]["y"] < lanes[1]["y"]
    histogram = pixels(page, tmp_path / "phone.png").histogram()
    assert (sum(histogram[:128]) > sum(histogram[128:])) == dark
    assert sum(count > 0 for count in histogram) > 30


def test_a_conversation_is_there_after_a_reload_and_a_new_one_forgets_it(page, spoken, speaker):
    page.open(address(spoken))
    page.give("drop", PNG)
    page.until(lambda: page.all("#pictures li"))
    page.ask("First?")
    page.driver.refresh()
    page.until(lambda: page.text("#model"))
    assert page.answers() == ["one two"]
    assert page.text(".turn .drafted") == "one "
    page.ask("Second?")
    assert speaker.questions() == ["First?", "Second?"]
    assert len(speaker.asked[-1][0].before.turns[0].question.pictures) == 1
    page.one("#new").click()
    page.driver.refresh()
    page.until(lambda: page.text("#model"))
    assert not page.all(".turn")
    assert page.one("#welcome").is_displayed()
    page.ask("Third?")
    assert speaker.questions() == ["Third?"]
    assert text_of(spoken.ask("x")) == "one two"


def test_an_answer_is_tried_again_and_copied(page, spoken, speaker):
    page.open(address(spoken))
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"origin": address(spoken).rstrip("/"), "permissions": ALLOWED},
    )
    speaker.parts = ["a *star*, ", "`code`"]
    page.ask("First?")
    page.ask("Second?")
    assert len(page.all(".retry")) == 1
    speaker.parts = ["**other**"]
    page.one(".retry").click()
    page.until(lambda: page.answers() == ["a star, code", "other"])
    page.until(page.idle)
    assert speaker.questions() == ["First?", "Second?"]
    page.all(".actions button")[0].click()
    page.until(lambda: page.all(".actions button")[0].text == "Copied")
    copied = "navigator.clipboard.readText().then(arguments[0])"
    assert page.driver.execute_async_script(copied) == "a *star*, `code`"


def test_settings_are_sent_and_kept(page, spoken, speaker):
    page.open(address(spoken))
    page.one("#settings summary").click()
    page.one("#system").send_keys("Be brief.")
    page.one("#temperature").send_keys("0.5", TAB)
    page.driver.refresh()
    page.until(lambda: page.text("#model"))
    page.ask("What?")
    prompt, options, _ = speaker.asked[-1]
    assert prompt.before.system == "Be brief."
    assert options.sampling.temperature == 0.5


def test_a_large_picture_is_scaled_in_the_browser(page, spoken, speaker):
    page.open(address(spoken))
    for name, kind in (("a.png", "PNG"), ("b.jpg", "JPEG")):
        page.give("drop", (name, f"image/{kind.lower()}", png("red", (3000, 1500), kind)))
    page.until(lambda: len(page.all("#pictures li")) == 2)
    assert "1500 scaled to 2048, " in page.text("#pictures li")
    page.ask("What?")
    pictures = speaker.asked[-1][0].question.pictures
    assert [picture.image.size for picture in pictures] == [(2048, 1024)] * 2
    assert all(picture.image.getpixel((9, 9))[0] > 250 for picture in pictures)


def test_a_picture_to_try_is_one_click(page, spoken, speaker):
    page.open(address(spoken))
    page.until(lambda: page.script("return document.querySelector('#samples img').naturalWidth"))
    page.one("#samples button").click()
    page.until(lambda: page.all("#pictures li"))
    page.one("#ask").click()
    page.until(page.idle)
    [picture] = speaker.asked[-1][0].question.pictures
    assert picture.image.tobytes() == Image.open(BytesIO(SHAPES)).convert("RGB").tobytes()
    assert speaker.questions() == ["What is in this picture?"]


def test_a_second_user_sees_that_another_answer_is_running(page, directory, monkeypatch):
    with speaking(directory, monkeypatch, Speaker(["word "] * 400, pause=0.05)) as server:
        asked = {"messages": [{"role": "user", "content": "x"}], "stream": True}
        with server.client.stream("POST", CHAT, json=asked) as first:
            lines = first.iter_lines()
            next(lines)
            page.open(address(server))
            page.one("#question").send_keys("What?", ENTER)
            page.until(lambda: "another answer is running" in page.text(".turn .figures"))
        page.until(lambda: "word word" in page.text(".turn .answer"))
        assert not page.text(".turn .figures")
        page.type(ESCAPE)
        page.until(page.idle)


WRITTEN = """# A title
Some **bold**, *slanted* and `f(*args)`, f(*args) and g(*args), a*b*c, __init__, snake_case_name.

1. Do this:

   ```bash
   for f in *.py; do echo $MY_VAR_* __init__; done
   ```
2. Then see https://example.com/_next_/a.js

~~~
# no title
~~~

````md
```
inner
```
````

> quoted *words*
> ```
> a*b*c
> ```

    indented *code*

| a | b |
|---|---|
| **1** | x_y_z |

- one
  - inner \\(x_1 * y_1\\)
- two <b>no tag</b> 2 * 3 * 4
"""

SHOWN = (
    ("p.heading", ["A title"]),
    ("strong", ["bold", "1"]),
    ("em", ["slanted", "words"]),
    ("p > code", ["f(*args)"]),
    (
        "pre",
        [
            "for f in *.py; do echo $MY_VAR_* __init__; done",
            "# no title",
            "```\ninner\n```",
            "a*b*c",
            "indented *code*",
        ],
    ),
    ("td", ["1", "x_y_z"]),
    ("li li", ["inner \\(x_1 * y_1\\)"]),
    ("ul > li:last-child > p", ["inner \\(x_1 * y_1\\)", "two <b>no tag</b> 2 * 3 * 4"]),
)


def test_markdown_is_shown_and_code_letter_for_letter(page, spoken, speaker):
    speaker.parts = [WRITTEN[at : at + 3] for at in range(0, len(WRITTEN), 3)]
    page.open(address(spoken))
    page.ask("What?")
    for selector, texts in SHOWN:
        found = [str(e.get_property("textContent")) for e in page.all(f".answer {selector}")]
        assert found == texts, selector
    first = page.all(".answer > p")[1].get_property("textContent")
    tail = "f(*args), f(*args) and g(*args), a*b*c, __init__, snake_case_name."
    assert first == f"Some bold, slanted and {tail}"
    assert "/_next_/a.js" in page.answers()[0]
    letters = "".join(page.answers()[0].split())
    rest = iter("".join(WRITTEN.split()))
    assert all(letter in rest for letter in letters)
    tinted = "".join(str(e.get_property("textContent")) for e in page.all(".answer .drafted"))
    assert 0.3 < len("".join(tinted.split())) / len(letters) < 0.7
