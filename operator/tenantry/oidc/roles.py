"""The roles that a token's claim names: `<app>:<role>` texts in a list or alone, or an object of roles by app."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.model.fields import APP_PATTERN

MOST = 100
"""Roles that are taken from one token."""
_APP = re.compile(rf"(?:{APP_PATTERN.strip('^$')})\Z")
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}\Z")


def roles_of(claims: Mapping[str, Any], claim: str) -> dict[str, str]:
    """Role by app. The first that names an app counts; what names no role of an app is another's business, and left out."""
    found: dict[str, str] = {}
    for app, role in _pairs(claimed(claims, claim)):
        if _APP.match(app) and _ROLE.match(role) and len(found) < MOST:
            found.setdefault(app, role)
    return found


def claimed(claims: Mapping[str, Any], claim: str) -> Any:
    """The value of a claim: of that very name, else by a path by dots, such as `realm_access.roles`; None for none."""
    if claim in claims:
        return claims[claim]
    value: Any = claims
    for step in claim.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(app), role) for app, role in value.items() if isinstance(role, str))
        return
    for text in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
        if isinstance(text, str):
            app, _, role = text.partition(":")
            yield app, role
