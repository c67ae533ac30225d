"""Engines that others run, declared as environments."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.settings import OutboundSettings, Settings
from tests.crash.story import object_, secret
from tests.scenario.foreign_engine import ForeignEngine
from tests.support.patience import DEADLINE_S
from tests.support.platform_of_folder import platform_of_folder

ACME = "tenant-acme"
PATIENCE_S = DEADLINE_S
LOOPBACK = Settings(outbound=OutboundSettings(http=True, networks="127.0.0.0/8"))


def package_source(folder: Path, version: str, columns: tuple[str, ...] = ("id", "email")) -> None:
    """A folder with the source of crm of that version."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = "".join(f"\n      - {{name: {each}, type: integer}}" for each in columns)
    (folder / "app.yaml").write_text(
        f"apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example Ltd\nversion: {version}\n"
        f"tables:\n  - name: contacts\n    primaryKey: [id]\n    columns:{fields}\n"
    )


class Declared:
    """The platform's source folder, and the platform that follows it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder / "source"
        self.state = folder / "state"
        self.url = url
        self.environment = ""
        self.engine = ""
        self.app = "{environment: old, app: crm, version: 1.0.0}"
        self.admin = ForeignEngine.password
        self.ann = "a first secret"
        self.region = "{engine: {external: true}}"
        package_source(self.folder / "crm", "1.0.0")
        package_source(self.folder / "crm2", "2.0.0", ("id",))

    def write(self) -> None:
        external = f"external: {{url: '{self.url}', adminSecretRef: {{name: engine}}}}"
        parts = [
            object_("Region", "eu", self.region),
            object_("Tenant", "acme", "{}"),
            object_("Environment", "old", f"{{region: eu, engine: {{{external}{self.engine}}}{self.environment}}}", "acme"),
            object_("Package", "crm-1-0-0", "{app: crm, version: 1.0.0, source: {path: crm}}", "acme"),
            object_("Package", "crm-2-0-0", "{app: crm, version: 2.0.0, source: {path: crm2}}", "acme"),
            object_("App", "old.crm", self.app, "acme"),
            secret("engine", ACME, "environment", self.admin),
            secret("ann", ACME, "identity", self.ann),
            object_("Identity", "ann", "{environment: old, username: ann, passwordSecretRef: {name: ann}}", "acme"),
            object_("IdentityProvider", "corp", "{environment: old, issuerUrl: 'https://id.example', clientId: c}", "acme"),
        ]
        (self.folder / "platform.yaml").write_text("---".join(parts))

    @asynccontextmanager
    async def platform(self, settings: Settings = LOOPBACK) -> AsyncIterator[Platform]:
        """A platform of this source, started."""
        self.write()
        async with platform_of_folder(self.state, self.folder, settings) as platform:
            yield platform

    async def again(self, platform: Platform) -> None:
        """Apply the present declarations."""
        self.write()
        assert platform.source is not None
        await platform.source.sync()


@pytest.fixture
def engine() -> ForeignEngine:
    return ForeignEngine()


def holds(engine: ForeignEngine) -> tuple[Any, ...]:
    apps = {id_: app.installed for id_, app in engine.apps.items()}
    return apps, sorted(engine.users), sorted(one["name"] for one in engine.providers.values())
