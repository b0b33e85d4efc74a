"""`python -m kvdocs` is the command `kvdocs`."""

import sys

from kvdocs.cli import main

if __name__ == "__main__":
    sys.exit(main())
