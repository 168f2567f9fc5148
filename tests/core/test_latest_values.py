"""A cache that drops what was used least recently."""

from mmspec.ground.latest_values import LatestValues


def test_a_value_is_computed_once_while_it_is_among_the_latest():
    computed: list[str] = []
    values = LatestValues[str](2)

    def get(key):
        return values.get(key, lambda: computed.append(key) or key.upper())

    assert [get(key) for key in "abacab"] == list("ABACAB")
    assert computed == list("abcb")  # c came when b was used less recently than a
    values.clear()
    assert get("a") == "A"
    assert computed == list("abcba")


def test_values_are_dropped_by_size_and_the_newest_stays():
    values = LatestValues[str](5, len)
    for value in ("aa", "bbb", "aa", "cc"):
        values.get(value, lambda value=value: value)
    assert values.get("aa", lambda: "computed again") == "aa"
    assert values.get("cc", lambda: "computed again") == "cc"
    values.get("larger", lambda: "larger")
    assert values.get("larger", lambda: "computed again") == "larger"
    assert values.get("cc", lambda: "dd") == "dd"
