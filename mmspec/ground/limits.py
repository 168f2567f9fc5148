"""What an annotation allows beside its type: msgspec's limits in fewer words."""

from msgspec import Meta


def Range(least: float, most: float) -> Meta:
    """The least and the most that a number may be."""
    return Meta(ge=least, le=most)


def Length(least: int, most: int) -> Meta:
    """The least and the most entries of a list or object, or characters of a text."""
    return Meta(min_length=least, max_length=most)


def Matches(pattern: str) -> Meta:
    """A regular expression for a whole text."""
    return Meta(pattern=rf"^({pattern})\Z")
