"""A platform whose engines are changed behind its back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.ports import EngineAdmin
from tests.crash.story import object_
from tests.support.platform_of_folder import platform_of_folder

ACME = "tenant-acme"
MANIFEST = "apiVersion: tenantry.dev/app/v1\nid: {id}\nname: CRM\nauthor: Example Ltd\nversion: 1.0.0\n"
SECRET = (
    "\napiVersion: v1\nkind: Secret\nmetadata: {name: ann, namespace: tenant-acme, labels: {tenantry.dev/credential: identity}}\n"
)


def declare(folder: Path, environment: str) -> None:
    """Everything declared, with that in the environment's spec."""
    corp = "{environment: dev, issuerUrl: 'https://issuer.example', clientId: dev}"
    parts = [
        object_("Region", "eu", "{}"),
        object_("Tenant", "acme", "{}"),
        object_("Environment", "dev", f"{{region: eu{environment}}}", "acme"),
        object_("Package", "crm-1-0-0", "{app: crm, version: 1.0.0, source: {path: crm}}", "acme"),
        object_("App", "dev.crm", "{environment: dev, app: crm, version: 1.0.0}", "acme"),
        SECRET + "stringData: {password: a first secret}\n",
        object_("Identity", "ann", "{environment: dev, username: ann, passwordSecretRef: {name: ann}}", "acme"),
        object_("IdentityProvider", "corp", corp, "acme"),
    ]
    (folder / "crm").mkdir(parents=True, exist_ok=True)
    (folder / "crm" / "app.yaml").write_text(MANIFEST.format(id="crm"))
    (folder / "platform.yaml").write_text("---".join(parts))


@asynccontextmanager
async def platform_of(folder: Path, environment: str = "") -> AsyncIterator[Platform]:
    """A platform that runs what is declared and has come to rest."""
    declare(folder / "source", environment)
    async with platform_of_folder(folder / "state", folder / "source") as platform:
        await platform.converged()
        yield platform


def engine(platform: Platform) -> EngineAdmin:
    """The engine's own interface, past everything that is declared."""
    dev = platform.state.cache.resource(Ref("Environment", ACME, "dev"))
    assert isinstance(dev, Environment)
    assert dev.status.engine is not None
    return platform.ports.engines.at(EngineEndpoint(dev.id, dev.status.engine.url))


async def meddle(platform: Platform) -> None:
    """Uninstalls the app, removes the identity and edits the provider."""
    behind = engine(platform)
    await behind.uninstall("crm")
    await behind.delete_version("crm", "1.0.0")
    await behind.delete_identity("ann")
    (corp,) = await behind.identity_providers()
    await behind.edit_identity_provider(corp.id, type(corp.settings)(corp.settings.name, "https://evil.example", "dev"), None)


async def looked(platform: Platform) -> None:
    """Look at everything again, as the schedule does, and wait until it rests."""
    platform.runtime.resync()
    await platform.converged()
