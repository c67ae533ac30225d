"""The blocks of pages, and the guides whose blocks a test runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
GUIDES = [
    "docs/tutorials/second-tenant.md",
    *(f"docs/guides/{name}.md" for name in ("promote", "roll-back", "undelete", "restore", "upgrade", "not-ready")),
    *(f"docs/guides/{name}.md" for name in ("source", "adopt", "oidc")),
]
"""Pages whose blocks a test runs in order, from an empty folder."""
GUIDE_TAGS = ("sh", "sh up", "text stop", "sh server", "sh fails", "text output")
"""sh up: a second shell, until `text stop`. sh server: a third shell, with a server at port 9400, until the end. sh fails: the
last command exits with 1. text output: of the block above."""
