"""``python -m blomodel``: the command line, also where the ``blomodel`` command is not on the path."""

from __future__ import annotations

import sys

from blomodel.cli import main

if __name__ == "__main__":
    sys.exit(main())
