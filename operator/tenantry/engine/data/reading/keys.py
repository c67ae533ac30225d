"""The key of a row in the path of a request."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed
from tenantry.rest.bodies import invalid


def key_of(scope: Scope, exposed: Exposed) -> list[str]:
    """Return the parts of the key, from the path as it was sent: only there a comma of a value differs from one between parts.

    Raises Invalid.
    """
    raw: bytes = scope["raw_path"].partition(b"?")[0].rpartition(b"/")[2]
    if raw.isalnum():  # most keys: nothing is quoted, and there is one part
        return [raw.decode("ascii")]
    parts = raw.split(b",") if len(exposed.key) > 1 else [raw]
    try:
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise invalid("key", "is not UTF-8") from None
