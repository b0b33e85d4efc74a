"""`python -m kvdocs` is the command `kvdocs`."""

import sys

from kvdocs.cli import main

sys.exit(main())
