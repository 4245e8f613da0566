"""`python -m actors.cli` is `tenure`."""

from __future__ import annotations

import sys

from actors.cli import main

sys.exit(main())
