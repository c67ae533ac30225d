"""Packages as requests publish them."""

from __future__ import annotations

import io
import zipfile
from typing import Any

FAX = "{name: fax, type: text}"


def package(version: str, *columns: str, note: str = "") -> dict[str, Any]:
    """The upload of an app `crm` with a table of those columns."""
    listed = ", ".join(("{name: id, type: integer}", *columns))
    manifest = f"""
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM {note}
author: Example Ltd
version: {version}
tables:
  - name: contacts
    primaryKey: [id]
    columns: [{listed}]
"""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(zipfile.ZipInfo("app.yaml"), manifest)
        if version == "1.0.0":
            archive.writestr(zipfile.ZipInfo("symbols.sym"), "the symbols")
            seed = '{"id": 1, "fax": "1234"}' if FAX in columns else '{"id": 1}'
            archive.writestr(zipfile.ZipInfo("seed/contacts.ndjson"), seed)
    return {"files": {"file": ("crm.tapp", raw.getvalue(), "application/octet-stream")}}


CRM = package("1.0.0")["files"]["file"][1]
NEXT = package("1.1.0", *(f"{{name: column_{number}, type: text}}" for number in range(20)))["files"]["file"][1]
