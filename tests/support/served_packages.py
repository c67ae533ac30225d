"""The bytes of a package, and a server that serves them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.keys import KeyRing
from tenantry.adapters.logs import BlobLogs
from tenantry.api.platform.blobs import add_blobs
from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.apps.plain import PlainApp
from tenantry.rest.uploads import Uploads

BYTES = b"the bytes of a package"
SHA256 = hashlib.sha256(BYTES).hexdigest()


def check(path: Path) -> PackageFacts:
    """Takes any bytes for a package, but those that start with `bad`."""
    data = path.read_bytes()
    if data.startswith(b"bad"):
        raise Invalid((Problem("app.yaml", "is missing"),))
    sha256 = hashlib.sha256(data).hexdigest()
    return PackageFacts("crm", "1", "CRM", "Example", sha256, len(data), tables=0, symbols=False, roles=("reader",))


def served(tmp_path: Path) -> tuple[PlainApp, KeyRing]:
    folder = FolderBlobs(tmp_path / "packages", check)
    keys = KeyRing(tmp_path / "keys", "tenantry")
    app = PlainApp("Blobs", (), lambda inner: inner)
    add_blobs(app, folder, BlobLogs(folder), Uploads(folder.incoming, 1 << 20), keys)
    return app, keys
