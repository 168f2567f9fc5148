"""Programs that people use speak with the server: the openai SDK, `llm`, and curl."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.bundled import SAMPLES
from support.live_server import Live, image_part, shown, text_of, until, words

DOCS = Path(__file__).parents[2] / "docs" / "server.md"
QUESTION = [{"role": "user", "content": "What do you know?"}]
SHAPES = (SAMPLES / "shapes.png").read_bytes()
LOOK = [{"role": "user", "content": [words("What is in this picture?"), image_part(SHAPES)]}]


def test_the_sdk_raises_its_own_errors_and_the_server_goes_on(mini: Live, sdk):
    import openai

    ask, asked = sdk(mini).chat.completions.create, {"model": "mini", "messages": QUESTION}
    for error, fields in (
        (openai.NotFoundError, {"model": "gpt-4o"}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": "a b " * 9000}]}),
    ):
        with pytest.raises(error) as raised:
            ask(**asked | fields)
        assert raised.value.param in fields
    with pytest.raises(openai.APITimeoutError):
        ask(model="mini", messages=LOOK, max_tokens=2000, timeout=0.02, temperature=2)
    assert text_of(mini.ask("What?", max_tokens=3))


def test_llm_asks_about_an_attached_image(mini: Live, tmp_path, monkeypatch):
    from llm.cli import cli as llm

    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    models = [
        f"- model_id: here\n  model_name: mini\n  api_base: {mini.client.base_url}/v1\n",
        "  vision: true\n",
    ]
    (tmp_path / "extra-openai-models.yaml").write_text("".join(models))
    (tmp_path / "keys.json").write_text(json.dumps({"openai": "none"}))
    asked = ["-m", "here", "What is in this picture?", "-a", str(SAMPLES / "shapes.png")]
    run = CliRunner().invoke(llm, [*asked, "--no-log", "--no-stream"], catch_exceptions=False)
    assert run.output.strip() == text_of(mini.chat(LOOK).json())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_lines_of_the_docs_work(mini: Live):
    """They show every kind of request."""
    blocks = re.findall(r"^```\n(.*?)^```", DOCS.read_text(), re.M | re.S)
    assert all(w in "".join(blocks) for w in ("chat/completions", "responses", "image_url"))
    for block in blocks:
        here = block.replace("127.0.0.1:8585", mini.client.base_url.netloc.decode())
        command = ["sh", "-c", here.replace("curl ", "curl -sS ")]
        reply = json.loads(subprocess.check_output(command, cwd=DOCS.parents[1]))
        assert reply.get("error") is None
        assert reply["usage"]["total_tokens"] > 5


def test_metrics_count_answers_and_tokens(mini: Live):
    def metrics():
        text = mini.client.get("/metrics").text
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")

    before = metrics()
    usage = mini.ask([shown("red"), words("What is it?")])["usage"]
    mini.chat([])
    after = metrics()

    def added(name):
        return float(after[f"mmspec_{name}"]) - float(before.get(f"mmspec_{name}", 0))

    details = usage["completion_tokens_details"]
    assert added("answers_total") == 1
    assert added("prompt_tokens_total") == usage["prompt_tokens"]
    assert added("completion_tokens_total") == usage["completion_tokens"]
    assert added("accepted_tokens_total") == details["accepted_prediction_tokens"]
    drafted = added("drafted_tokens_total") - added("accepted_tokens_total")
    assert drafted == details["rejected_prediction_tokens"]
    assert added('requests_total{address="/v1/chat/completions",status="200"}') == 1
    assert added('requests_total{address="/v1/chat/completions",status="400"}') == 1
    assert added("decode_seconds_total") > 0
    assert float(after["mmspec_cached_conversations"]) >= 1
    assert float(after["mmspec_cache_bytes"]) > 10_000
    until(lambda: metrics()["mmspec_jobs"] == "0")  # the thread ends a job after its last event
    assert mini.client.get("/metrics").headers["content-type"].startswith("text/plain")
