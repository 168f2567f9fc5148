"""Mistakes in the static form of rounds on PyTorch."""

from mutant import TORCH, Mutant

STATIC = "tests/torch/test_torch_static.py::"
EQUAL = STATIC + "test_rounds_are_those_of_the_dynamic_form"
FOLDER = TORCH + "static/"

CAPTURED = [
    Mutant(
        "static: a chain's columns are seen before they are written",
        FOLDER + "frame.py",
        "later = self.count(width) > columns.unsqueeze(1)",
        "later = self.count(width) > columns.max()",
        EQUAL,
    ),
    Mutant(
        "static: padding of the last prompt stays",
        FOLDER + "drafter.py",
        "if moved or mask is not self._mask:",
        "if moved:",
        EQUAL,
    ),
    Mutant(
        "static: two pending tokens share the graph of one",
        FOLDER + "drafter.py",
        "(k, count, width), lambda",
        "(k, width), lambda",
        EQUAL,
    ),
    Mutant(
        "static: new columns hold what memory held",
        FOLDER + "cache.py",
        "new_zeros(layers, rows, heads, wider, head_dim)",
        'new_full((layers, rows, heads, wider, head_dim), float("nan"))',
        EQUAL,
    ),
    Mutant(
        "static: the host puts the position into the kernel",
        FOLDER + "target.py",
        "columns = self._numbers[:1] + frame.count(rows)",
        "columns = int(self._numbers[0]) + frame.count(rows)",
        EQUAL,
    ),
    Mutant(
        "static: graphs outlive their buffers",
        FOLDER + "frame.py",
        "            self._replays.clear()\n",
        "",
        STATIC + "test_what_was_captured_before_growth_is_not_replayed_after_it",
    ),
    Mutant(
        "static: a head reads no embeddings",
        FOLDER + "target.py",
        "states, x\n",
        "states, x * 0\n",
        STATIC + "test_the_trail_of_a_static_target_is_whole",
    ),
]
