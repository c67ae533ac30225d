"""Hooks that teach schemathesis to send a package. Its process loads them by SCHEMATHESIS_HOOKS."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.serializer("application/zip", "application/octet-stream")
def as_bytes(context: Any, value: Any) -> bytes:
    """Return what was generated as the body itself."""
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")
