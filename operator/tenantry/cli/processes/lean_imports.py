"""Imports libraries without the parts of them that a server does not use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

CONSOLES = ("click", "colorama", "greenlet", "pygments", "rich")
"""Libraries for terminals, and greenlet: structlog takes them where it finds them, 0.1 s and 10 MiB."""
KUBERNETES_CLIENTS = ("kubernetes", "kubernetes_asyncio", "pykube")
"""kopf takes their objects too where it finds them, 7 MiB. None is needed in a cluster; a kubeconfig is read by the first one."""
HTTPX = "httpx._main"
"""The command line of httpx. It imports the same libraries, whenever httpx itself is imported."""
ASKED_FOR_AT_EACH_REQUEST = "sniffio"
"""A library of trio. httpx and httpcore import it four times for a request. If it is not there, each takes a search of 0.2 ms."""
NO_PLUGINS = ("PYDANTIC_DISABLE_PLUGINS", "__all__")
"""The variable that keeps pydantic from looking for plugins: it reads the metadata of all installed packages, for 10 ms."""
UVICORN = "uvicorn.main"
"""The command line of uvicorn. It imports click, multiprocessing and a reloader, 20 ms and 2 MiB."""


class _WithoutCommands(ModuleType):
    """`uvicorn.main` with the class that uvicorn takes from it, and without commands."""

    main = run = None

    @property
    def Server(self) -> Any:  # noqa: N802 - uvicorn's own name
        """Return the server, whose module cannot be imported before uvicorn."""
        return import_module("uvicorn.server").Server


def import_without_consoles() -> None:
    """Import structlog as if the libraries for terminals were not installed; uvicorn and httpx come without their command lines.

    Before anything else imports them. They offer that: structlog then formats tracebacks as Python does. Models of pydantic
    have no plugins.
    """
    leave_out_consoles()
    sys.modules.setdefault(UVICORN, _WithoutCommands(UVICORN))
    remember_absent(ASKED_FOR_AT_EACH_REQUEST)
    with hidden(*CONSOLES):
        import_module("structlog")


def leave_out_consoles() -> None:
    """Let httpx come without its command line, and models of pydantic without plugins: 0.1 s less for each client command."""
    os.environ.setdefault(*NO_PLUGINS)
    sys.modules.setdefault(HTTPX, None)  # type: ignore[arg-type]  # Python's own way to say: not to be found


def remember_absent(library: str) -> None:
    """Let each import of a library fail without a search, if it is not installed."""
    if library not in sys.modules and find_spec(library) is None:
        sys.modules[library] = None  # type: ignore[assignment]


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Imports of these modules fail in the block. Another thread must not import them at the same time."""
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
