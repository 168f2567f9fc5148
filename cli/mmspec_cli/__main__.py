"""`python -m mmspec_cli` is `mmspec`."""

import sys

from mmspec_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
