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
    config("max-new-tokens = 3\n[chat]\nsystem = 'Be brief.'\n[serve]\nmax-new-tokens = 5\n")
    talk = chat("/system", "/max-new-tokens", models=[])
    assert talk.notices == ["system text: Be brief.", "an answer has at most 3 tokens"]
    assert "at most 4 " in chat("/max-new-tokens", models=["--max-new-tokens", "4"]).notices[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[chat]\nmodle = 'x'", "'modle'"),
        ("model = ", "cannot be read as TOML"),
        ("[chat]\ngamma = 'many'", "many"),
    ],
)
def test_a_wrong_file_is_one_line(run, config, text, words):
    config(text)
    result = run("chat")
    assert result.status == 2
    assert words in result.err
    assert result.err.count("\n") == 1
