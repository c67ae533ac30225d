"""The volume of a pod into which an engine comes. By itself, because each engine looks for it when it starts.

The pod is deployed with an empty volume and a file beside its keys. As long as that file is there and no engine is in the volume,
the process makes none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tenantry.engine.sealing import TOKEN_KEY_FILE
from tenantry.model.facts import MOVING_MARK
from tenantry.rest.disk import make_durable

KEPT = "coming.tmp"
"""The folder of what comes, in the volume. No archive has it."""
FILES = "engine"
"""In it: the files of an engine that was taken, until each is in its place."""


def is_awaited(data: Path, keys: Path) -> bool:
    """Return True if an engine is to come into that folder. keys: the folder of the pod's keys.

    Ends a take that a crash interrupted. Blocks. Raises OSError.
    """
    spread(data)
    # Each engine that moves has this key: it is made before the last copy.
    awaited = (keys / MOVING_MARK).exists() and not (data / TOKEN_KEY_FILE).exists()
    if not awaited:
        shutil.rmtree(data / KEPT, ignore_errors=True)
    return awaited


def spread(data: Path) -> None:
    """Bring the files that were taken to their place. A volume is no folder that one rename could replace. Idempotent.

    Blocks. Raises OSError.
    """
    files = data / KEPT / FILES
    if not files.exists():
        return
    # The key goes last: with it the engine is whole.
    for each in sorted(files.iterdir(), key=lambda each: each.name == TOKEN_KEY_FILE):
        make_durable(data)
        each.rename(data / each.name)
    make_durable(data)
    files.rmdir()
