import unicodedata

from mmspec.ground.escape import one_line, visible


def test_no_control_character_passes_but_newline_and_tab():
    everything = "".join(map(chr, range(0x110000)))
    passed = [c for c in visible(everything) if unicodedata.category(c) == "Cc"]
    assert set(passed) == {"\n", "\t"}


def test_escapes_read_as_terminals_show_them():
    assert visible("a\x1b[31mb\rc\x07\x9b\u202e") == r"a^[[31mb^Mc^G\x9b\u202e"


def test_one_line_has_one_line():
    assert one_line(" a\n\tb\x1b  ") == "a b^["
