"""The inputs of decisions about an Environment, for tables of tests."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.environment.decide import engine_ref
from tenantry.kinds.environment.seen import Observed, SeenRegion, SeenTenant
from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import EngineFacts, EngineSpec
from tests.unit.kinds.factories import BORN, MISSING, PRESENT, environment, running_environment, uid_of

ACME = SeenTenant("acme", uid_of("Tenant//acme"), "acme", deleting=False)
EU = SeenRegion("Local", allowed=True)
URL = "http://here/e/acme/dev"


def runs(of: Environment | None = None, status: str = "RUNNING", **differs: Any) -> EngineFacts:
    """The engine, as it was deployed for `of`."""
    spec = EngineSpec(engine_ref(of or environment(), "acme"), "eu", "Local")
    fields: dict[str, Any] = {"spec": spec, "message": "", "credential": ""}
    return EngineFacts("e", "engine-dev", status, URL, "local/e/engine", "local/e", BORN, **(fields | differs))


def seen(environment_: Environment | None = None, **looks: Any) -> Observed:
    """A new environment with nothing in its way and nothing there yet."""
    given: dict[str, Any] = {
        "tenant": ACME, "region": EU, "rivals": (), "engine": None, "admin": MISSING, "preview": URL, "children": (),
    }  # fmt: skip
    return Observed(environment_ or environment(), **(given | looks))


def there(environment_: Environment | None = None, **looks: Any) -> Observed:
    """An environment that was Ready, and whose engine runs."""
    found: dict[str, Any] = {"engine": runs(), "admin": PRESENT}
    return seen(environment_ or running_environment(), **(found | looks))
