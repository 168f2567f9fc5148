"""`mmspec`, but answers end at their budget alone, and text shows a control character."""

import sys

import torch

from mmspec.chat.engine import Engine
from mmspec_cli.main import main

if __name__ == "__main__":
    torch.set_num_threads(1)
    Engine.stop = property(lambda self: frozenset())
    sys.exit(main())
