"""Names of files in a state folder. Needs no library, so that a client command starts quickly."""

from __future__ import annotations

DATABASE_FILE = "state.db"
"""The store's database."""
