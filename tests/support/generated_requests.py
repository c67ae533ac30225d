"""Requests generated from the OpenAPI document."""

from __future__ import annotations

import base64
from urllib.parse import quote


def shapes(secret: str) -> tuple[bytes, ...]:
    """The forms in which a secret may stand in an answer, a log or a file."""
    raw = secret.encode()
    return raw, base64.b64encode(raw).rstrip(b"="), raw.hex().encode(), quote(secret, safe="").encode(), repr(secret).encode()
