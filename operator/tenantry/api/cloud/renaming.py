"""Edits of what has a name and a slug: tenants and environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenantry.api.http.bodies import EditRequest
from tenantry.api.writing.writes import WriteContext, check_slug
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import Document
from tenantry.rest.bodies import invalid


def check_edit(
    writes: WriteContext, document: Document, named: Tenant | Environment, body: EditRequest, check_free: Callable[[str], None]
) -> None:
    """Check that its declaration takes the edit.

    check_free: raises Invalid for a slug that another one has or wants. Raises Invalid.
    """
    writes.check_free(document)
    if named.deleting:
        raise invalid("", f"the {named.KIND.lower()} is being deleted")
    if body.slug is not None and body.slug != named.wanted_slug:
        check_slug(body.slug)
        check_free(body.slug)


def edited(spec: dict[str, Any], body: EditRequest) -> dict[str, Any]:
    """The spec with what the edit carries."""
    if body.name is not None:
        spec["displayName"] = body.name
    if body.slug is not None:
        spec["slug"] = body.slug
    return spec
