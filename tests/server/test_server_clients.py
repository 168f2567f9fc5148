"""Programs that people use speak with the server: `llm` and curl; and what it counts."""

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
SHAPES = (SAMPLES / "shapes.png").read_bytes()
LOOK = [{"role": "user", "content": [words("What is in this picture?"), image_part(SHAPES)]}]


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


def test_llm_asks_about_an_attached_image(mini: Live, tmp_path, monkeypatch):
    from llm.cli import cli as llm

    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    model = {"model_id": "here", "model_name": "mini", "api_base": f"{mini.client.base_url}/v1"}
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps([model | {"vision": True}]))
    (tmp_path / "keys.json").write_text(json.dumps({"openai": "none"}))
    asked = ["-m", "here", "What is in this picture?", "-a", str(SAMPLES / "shapes.png")]
    run = CliRunner().invoke(llm, [*asked, "--no-log", "--no-stream"], catch_exceptions=False)
    assert run.output.strip() == text_of(mini.chat(LOOK).json())


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

    accepted, rejected = usage["completion_tokens_details"].values()
    requests = 'requests_total{address="/v1/chat/completions",status="%d"}'
    for name, count in {
        "answers_total": 1,
        "prompt_tokens_total": usage["prompt_tokens"],
        "completion_tokens_total": usage["completion_tokens"],
        "accepted_tokens_total": accepted,
        "drafted_tokens_total": accepted + rejected,
        requests % 200: 1,
        requests % 400: 1,
    }.items():
        assert added(name) == count, name
    assert added("decode_seconds_total") > 0
    assert float(after["mmspec_cached_conversations"]) >= 1
    assert float(after["mmspec_cache_bytes"]) > 10_000
    until(lambda: metrics()["mmspec_jobs"] == "0")  # the thread ends a job after its last event
    assert mini.client.get("/metrics").headers["content-type"].startswith("text/plain")
