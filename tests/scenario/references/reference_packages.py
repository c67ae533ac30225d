"""Tries of what hangs on Packages: their bytes, their signatures and keys, and what an App may drop."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from io import BytesIO
from typing import Any

from tests.scenario.hosts import object_
from tests.scenario.references.reference_story import NAMESPACE, Story
from tests.unit.engine.archives import manifest
from tests.unit.kinds.signing import Minisign

SIGNER, STRANGER = Minisign(b"signer__"), Minisign(b"stranger")
FAX = {"name": "fax", "type": "string", "length": 20}


def bytes_of(app: str, version: str = "1.0.0", *columns: dict[str, Any], author: str = "Example Ltd") -> bytes:
    """A package file. columns: of a table with one row, beside its id."""
    table = {"name": "contacts", "primaryKey": ["id"], "columns": [{"name": "id", "type": "integer"}, *columns]}
    raw = BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        tables = {"tables": [table]} if app.startswith("drops") else {}
        archive.writestr(zipfile.ZipInfo("app.yaml"), manifest(id=app, version=version, author=author, **tables))
        if columns:
            archive.writestr(zipfile.ZipInfo("seed/contacts.ndjson"), '{"id": 1, "fax": "1234"}')
    return raw.getvalue()


def pushes(story: Story) -> str:
    """Bytes that no Package declares; their sha256."""
    return _pushed(story, bytes_of("crm"))


def has_no_bytes(story: Story, sha256: str) -> None:
    story.host.apply(object_("Package", NAMESPACE, "crm", app="crm", version="1.0.0", sha256=sha256))
    story.ends_as("packages", NAMESPACE, "crm", "PackageMissing")


def is_another_package(story: Story) -> None:
    """Deleted, and made again with other bytes: those are wanted, and installed."""
    first, second = (bytes_of("turned", author=author) for author in ("One Ltd", "Two Ltd"))
    _declared(story, "turned", first)
    _pushed(story, first)
    story.ready("packages", "turned")
    story.remove("package", "turned")
    _declared(story, "turned", second)
    story.comes_to("packages", "turned", "PackageMissing")
    _pushed(story, second)
    story.declare("App", "dev.turned", environment="dev", app="turned", version="1.0.0")
    assert story.ready("apps", "dev.turned")["status"]["author"] == "Two Ltd"


def signs(story: Story) -> bytes:
    raw = bytes_of("signed")
    _installs_signed(story, "signed", raw)
    _pushed(story, raw, SIGNER.sign(raw))
    story.ready("apps", "signed.signed")
    return raw


def has_no_signature(story: Story, raw: bytes) -> None:
    """The same keys are asked for, and the same bytes are brought."""
    _installs_signed(story, "signed", raw)
    _pushed(story, raw)
    story.comes_to("apps", "signed.signed", "PackageNotSigned")
    _pushed(story, raw, STRANGER.sign(raw))
    story.comes_to("apps", "signed.signed", "PackageNotSigned")


def needs_another_signature(story: Story) -> None:
    first, second = (bytes_of("resigned", author=author) for author in ("One Ltd", "Two Ltd"))
    _installs_signed(story, "resigned", first)
    _pushed(story, first, SIGNER.sign(first))
    story.ready("apps", "signed.resigned")
    story.remove("app", "signed.resigned")
    story.remove("package", "resigned")
    _installs_signed(story, "resigned", second)
    _pushed(story, second, SIGNER.sign(first))
    story.comes_to("apps", "signed.resigned", "PackageNotSigned")
    _pushed(story, second, SIGNER.sign(second))
    assert story.ready("apps", "signed.resigned")["status"]["author"] == "Two Ltd"


def allows_drops(story: Story) -> None:
    _installs_with_rows(story, "drops")
    story.declare("App", "dev.drops", environment="dev", app="drops", version="2.0.0")
    story.comes_to("apps", "dev.drops", "DropsRefused")
    story.declare("App", "dev.drops", environment="dev", app="drops", version="2.0.0", allowDropsFor="2.0.0")
    story.ready("apps", "dev.drops")


def may_not_drop(story: Story, _: None) -> None:
    _installs_with_rows(story, "drops")
    story.declare("App", "dev.drops", environment="dev", app="drops", version="2.0.0")
    story.comes_to("apps", "dev.drops", "DropsRefused")


def allows_drops_again(story: Story) -> None:
    """The rows stay when the App goes; what it allowed does not."""
    _installs_with_rows(story, "dropsagain", allowDropsFor="2.0.0")
    story.remove("app", "dev.dropsagain")
    story.declare("App", "dev.dropsagain", environment="dev", app="dropsagain", version="2.0.0")
    story.comes_to("apps", "dev.dropsagain", "DropsRefused")


def _installs_with_rows(story: Story, app: str, **spec: Any) -> None:
    """Version 1.0.0 with a row; 2.0.0, which has no column for it, is there as well."""
    for raw, version in ((bytes_of(app, "1.0.0", FAX), "1.0.0"), (bytes_of(app, "2.0.0"), "2.0.0")):
        _declared(story, app, raw, version)
        _pushed(story, raw)
    story.declare("App", f"dev.{app}", environment="dev", app=app, version="1.0.0", **spec)
    story.ready("apps", f"dev.{app}")


def _installs_signed(story: Story, app: str, raw: bytes) -> None:
    story.declare("Environment", "signed", region="here", packageKeys=[SIGNER.public])
    _declared(story, app, raw)
    story.declare("App", f"signed.{app}", environment="signed", app=app, version="1.0.0")


def _declared(story: Story, app: str, raw: bytes, version: str = "1.0.0") -> None:
    name = app if version == "1.0.0" else f"{app}-{version.replace('.', '-')}"
    story.declare("Package", name, app=app, version=version, sha256=hashlib.sha256(raw).hexdigest())


def _pushed(story: Story, raw: bytes, signature: str = "") -> str:
    """Brings bytes to the tenant; their sha256."""
    sha256 = hashlib.sha256(raw).hexdigest()
    headers = {"Tenantry-Signature": base64.b64encode(signature.encode()).decode()} if signature else {}
    pushed = story.host.rest("PUT", f"/packages/{sha256}?tenantId={story.tenant}", content=raw, headers=headers)
    assert pushed.status_code in (200, 201), pushed.text
    return sha256
