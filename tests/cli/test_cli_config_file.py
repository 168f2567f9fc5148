"""Defaults of options from the user's file."""

import pytest


@pytest.fixture
def config(monkeypatch, tmp_path):
    """A function that writes the file of defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "mmspec/config.toml"
    file.parent.mkdir()
    return file.write_text


def test_an_option_has_the_file_s_value_unless_it_is_given(chat, config):
    config(
        "max-new-tokens = 3\nport = 9\n[chat]\nsystem = 'Be brief.'\nplain = true\n"
        "[serve]\nmax-new-tokens = 5\n[bench.speed]\ngamma = 'auto'\n"
    )
    talk = chat("/system", "/max-new-tokens", models=[])
    assert talk.notices == ["system text: Be brief.", "an answer has at most 3 tokens"]
    assert "at most 4 " in chat("/max-new-tokens", models=["--max-new-tokens", "4"]).notices[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[chat]\nmodle = 'x'", "'modle'"),
        ("modl = 'mini'", "unknown option in FILE 'modl'"),
        ("[chatt]\nseed = 1", "unknown table in FILE 'chatt'"),
        ("[bench.spede]\nseed = 1", "'spede'"),
        ("model = ", "cannot be read as TOML"),
        ("[chat]\ngamma = 'many'", 'gamma = "many" in FILE'),
        ("[chat]\nmax-new-tokens = true", "max-new-tokens = true in FILE: give INTEGER"),
        ("[chat]\nmax-new-tokens = 3.5", "max-new-tokens = 3.5 in FILE"),
        ("[chat]\ndraft-text = 'a'", 'draft-text = "a" in FILE: give a list of FILE'),
        ("plain = 'yes'", 'plain = "yes" in FILE: give true or false'),
    ],
)
def test_a_wrong_file_is_one_line(run, config, tmp_path, text, words):
    config(text)
    words = words.replace("FILE", str(tmp_path / "mmspec/config.toml"), 1)
    command = ["bench", "speed"] if "bench" in text else ["chat"]
    result = run(*command)
    assert result.status == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert "as_json" not in result.err


def test_doctor_says_that_the_file_is_wrong(run, config):
    config("modl = 'mini'")
    doctor = run("doctor")
    assert (doctor.status, "'modl'" in doctor.out) == (1, True)


def test_an_option_out_of_range_is_the_file_s_unless_it_is_given(run, config):
    config("max-new-tokens = -1\n")
    assert "config.toml" in run("chat", "--model", "mini").err
    assert "config.toml" not in run("chat", "--model", "mini", "--max-new-tokens", "-1").err
