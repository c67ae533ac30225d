"""The endpoints of the facade, taken from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tenantry.rest.routes import ROLE
from tests.scenario.rest_world import World

ABSENT = "00000000-0000-4000-8000-000000000000"
OPEN = {("POST", "/api/v1/auth/token")}
SERVED = frozenset({200, 201, 202, 204, 303, 307, 400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429})
"""The statuses of a server without a fault."""
FILLED = {"version": "1.0.0", "username": "nobody", "sha256": "0" * 64}


class Endpoint(NamedTuple):
    """role: the only one that may call it, `""` for every role; edits: does it take a JSON body for what is there?

    takes: its query parameters.
    """

    method: str
    path: str
    role: str = ""
    edits: bool = False
    takes: frozenset[str] = frozenset()

    def to(self, ids: dict[str, str]) -> str:
        """The path for those ids; other parameters name nothing that is there."""
        kind = self.path.split("/")[3] if self.path.startswith("/api/v1/") else "environments"
        own = {"environmentId": ids["environments"], "id": ids.get(kind, ABSENT) if "/engines/" not in self.path else ABSENT}
        return self.path.format(**{**FILLED, **own})

    def names_nothing(self, ids: dict[str, str]) -> bool:
        """Return True if the path has a parameter that names nothing that is there."""
        return ABSENT in self.to(ids) or any(f"{{{name}}}" in self.path for name in FILLED)


def endpoints(schema: dict[str, Any]) -> Iterator[Endpoint]:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            edits = method in ("put", "patch") and "application/json" in operation.get("requestBody", {}).get("content", {})
            takes = frozenset(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query")
            yield Endpoint(method.upper(), path, operation.get(ROLE, ""), edits, takes)


def in_order(found: Iterator[Endpoint]) -> list[Endpoint]:
    """Those that delete come last: what they take away is needed before. Sign-out ends the session of all others."""
    return sorted(
        (each for each in found if not each.path.endswith("/auth/logout")),
        key=lambda each: (each.method == "DELETE", each.path, each.method),
    )


async def ids_of(world: World, slug: str) -> dict[str, str]:
    """A tenant with an environment, and the ids of what belongs to it."""
    tenant = await world.tenant(slug)
    made = await world.environment(slug, "dev")
    user = await world(f"{slug}-viewer", "GET", "/auth/me")
    return {
        "tenants": tenant,
        "environments": made["environment"]["id"],
        "operations": made["operation_id"],
        "users": user.json()["sub"],
    }


def without(text: str, ids: dict[str, str]) -> str:
    for id_ in ids.values():
        text = text.replace(id_, "ID")
    return text.replace(ABSENT, "ID")
