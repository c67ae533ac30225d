"""Imports libraries without the parts of them that a server does not use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

CONSOLES = ("click", "colorama", "greenlet", "pygments", "rich")
"""Libraries for terminals, and greenlet: structlog and httpx take them where they find them, 0.1 s and 10 MiB."""
UVICORN = "uvicorn.main"
"""The command line of uvicorn. It imports click, multiprocessing and a reloader, 20 ms and 2 MiB."""


class _WithoutCommands(ModuleType):
    """`uvicorn.main` with the class that uvicorn takes from it, and without commands."""

    main = run = None

    @property
    def Server(self) -> Any:  # noqa: N802 - uvicorn's own name
        """Return the server, whose module cannot be imported before uvicorn."""
        return import_module("uvicorn.server").Server


def import_without_consoles(*libraries: str) -> None:
    """Import structlog or httpx as if the libraries for terminals were not installed, and uvicorn without its command line.

    Before anything else imports them. They offer that: structlog then formats tracebacks as Python does, and httpx has no
    command line.
    """
    sys.modules.setdefault(UVICORN, _WithoutCommands(UVICORN))
    with _hidden(*CONSOLES):
        for library in libraries:
            import_module(library)


@contextmanager
def _hidden(*names: str) -> Iterator[None]:
    """Imports of these modules fail in the block. Another thread must not import them at the same time."""
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # Python's own way to say: not to be found
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
