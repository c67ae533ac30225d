"""Styles, scripts and pictures that pages load. They stand in the package: nothing is loaded from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple

from starlette.responses import Response

from tenantry.model.verdicts import NotFound

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class Asset(NamedTuple):
    """One file. version: of its content, a part of its address."""

    body: bytes
    media_type: str
    version: str


class Assets:
    """The files in the folder `static` of a package. Each has an address that changes with its content.

    base: the path below which they are served. They are read when the first of them is needed.
    """

    def __init__(self, package: str, names: Iterable[str], base: str) -> None:
        self._package = package
        self._names = tuple(names)
        self._base = base

    @cached_property
    def files(self) -> dict[str, Asset]:
        """The files by name."""
        return {name: self._read(name) for name in self._names}

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The paths of the files by name."""
        return {name: f"{self._base}/{asset.version}/{name}" for name, asset in self.files.items()}

    def answer(self, name: str, version: str) -> Response:
        """A file, for as long as a browser likes to keep it. Raises NotFound."""
        found = self.files.get(name)
        if found is None or found.version != version:
            raise NotFound(f"no file {name} of version {version}")
        return Response(found.body, 200, _HEADERS, found.media_type)

    def _read(self, name: str) -> Asset:
        body = files(self._package).joinpath("static", name).read_bytes()
        return Asset(body, _TYPES[name.rpartition(".")[2]], hashlib.sha256(body).hexdigest()[:12])
