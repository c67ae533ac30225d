"""Documents: objects as JSON. Needs no library, so that a command that only reads starts quickly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

GROUP = "tenantry.dev"
CREDENTIAL_LABEL = f"{GROUP}/credential"
SUSPENDED = "Suspended"
"""Condition of what is suspended."""
_DURATION = re.compile(r"([0-9]+)(s|m|h|d)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Document = Mapping[str, Any]
"""The JSON of an object: apiVersion, kind, metadata, spec, status (a Secret: data)."""


class Ref(NamedTuple):
    """Names one object. `namespace` is `""` for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`, whole microseconds only when there are any."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat().removesuffix("+00:00") + "Z"


def parse_time(text: str) -> datetime:
    """The reverse of `format_time`. Raises ValueError."""
    return datetime.fromisoformat(text)


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h`, `30d` or several of them, `1h30m`. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is not a duration; write 90s, 15m, 1h or 30d")
    try:
        return timedelta(seconds=sum(int(number) * SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def ref_of(document: Document) -> Ref:
    """The reference of a document. Raises KeyError when kind or metadata.name is missing."""
    metadata = document["metadata"]
    return Ref(document["kind"], metadata.get("namespace", ""), metadata["name"])


def bound_namespace(tenant: Document) -> str:
    """Return the namespace that a Tenant's document owns, by its status; `""` before it has one.

    Only the platform writes the status. The label of a namespace is consent, and the spec of a Tenant is a wish.
    """
    return str(((tenant.get("status") or {}).get("namespace") or {}).get("name") or "")


def namespace_of(tenant: Document) -> str:
    """Return the namespace that a Tenant's document is bound to, or else the one that it wants."""
    return str(bound_namespace(tenant) or tenant["spec"].get("namespace") or f"tenant-{tenant['metadata']['name']}")
