"""A source with a tenant, two environments and an app, as a folder that `tenantry up` follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.scenario.console.browser_place import Place
from tests.scenario.hosts import object_

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
author: Example Ltd
version: 1.0.0
tables:
  - {name: contacts, primaryKey: [id], columns: [{name: id, type: integer}]}
"""


def environment(name: str, region: str = "here") -> dict[str, Any]:
    return object_("Environment", "tenant-acme", name, region=region, displayName=name.upper())


BASE = (
    object_("Region", "", "here"),
    object_("Tenant", "", "acme", displayName="Acme"),
    environment("dev"),
    environment("live"),
    object_("Package", "tenant-acme", "crm-1", app="crm", version="1.0.0", source={"path": "crm"}),
    object_("App", "tenant-acme", "dev.crm", environment="dev", app="crm", version="1.0.0"),
)


def declare(place: Place, *documents: dict[str, Any]) -> None:
    """Write the documents of the source anew."""
    (place.source / "all.yaml").write_text(yaml.safe_dump_all(documents))


def source_of(folder: Path) -> Path:
    """Write the source into a folder, with an environment whose Region is missing. Returns the folder."""
    (folder / "crm").mkdir(parents=True)
    (folder / "crm" / "app.yaml").write_text(APP)
    (folder / "all.yaml").write_text(yaml.safe_dump_all([*BASE, environment("lost", "nowhere")]))
    return folder
