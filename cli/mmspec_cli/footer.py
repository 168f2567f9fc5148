"""One line on what an answer cost."""

from mmspec.statistics import Statistics


def footer(statistics: Statistics, first_token: float | None) -> str:
    """Speed, time to the first token and its parts, drafting, prompt and memory.

    first_token: seconds from the question to the first text; None where none came.
    """
    parts = [
        f"{statistics.tokens} tokens, {statistics.tokens_per_second:.1f}/s",
        _first_token(statistics, first_token),
        _drafting(statistics),
        _prompt(statistics),
        f"peak {_memory(statistics.peak_memory_bytes)}",
    ]
    return " · ".join(part for part in parts if part)


def _first_token(statistics: Statistics, seconds: float | None) -> str:
    if seconds is None:
        return ""
    stages = [stage for stage in ("vision", "caption") if statistics.seconds[stage]]
    split = [f"{stage} {statistics.seconds[stage]:.2f}" for stage in (*stages, "prefill")]
    return f"first after {seconds:.2f} s ({', '.join(split)})"


def _drafting(statistics: Statistics) -> str:
    if not statistics.drafted:
        return "no drafting"
    return (
        f"{statistics.block_efficiency:.2f} tokens/round, {statistics.acceptance_rate:.0%} accepted"
    )


def _prompt(statistics: Statistics) -> str:
    new = statistics.prompt_tokens - statistics.cached_tokens
    return f"prompt {statistics.cached_tokens} cached + {new} new"


def _memory(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
