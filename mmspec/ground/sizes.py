"""Numbers of bytes in words."""


def amount(size: float, digits: int = 1) -> str:
    """`1.2 GB`, `34.5 MB`."""
    unit, name = (1e9, "GB") if size >= 1e8 else (1e6, "MB")
    return f"{size / unit:.{digits}f} {name}"


def distinct_amounts(size: float, limit: float) -> tuple[str, str]:
    """Two sizes with as many digits as they need to differ.

    >>> distinct_amounts(1_000_400_000, 1_000_000_000)
    ('1.0004 GB', '1.0000 GB')
    """
    pairs = ((amount(size, digits), amount(limit, digits)) for digits in range(1, 10))
    return next((pair for pair in pairs if pair[0] != pair[1]), (amount(size), amount(limit)))
