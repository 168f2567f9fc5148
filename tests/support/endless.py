"""`mmspec`, but answers end at their budget alone, and text shows a control character."""

import sys

import mmspec_cli.main
from mmspec.chat.engine import Engine


def main(arguments: list[str]) -> int:
    Engine.stop = property(lambda self: frozenset())
    return mmspec_cli.main.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
