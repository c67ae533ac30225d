"""The headers beside an archive of an engine that moves. The facts of the archive come before it, the signature within."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import StreamingResponse

from tenantry.adapters.moving.blocks import LARGEST
from tenantry.adapters.moving.leaving import Packed
from tenantry.rest.bodies import read_bytes

TOKEN = "Tenantry-Moving"  # noqa: S105 - a header
"""The token of the engine while its archive was read; `prepared` if it was not read-only."""
SIGNER = "Tenantry-Signer"
REF = "Tenantry-Engine"
"""The reference of the engine, as JSON."""
PREPARED = "prepared"


async def earlier_copy(request: Request) -> bytes:
    """Return what a request for an archive says of the copy that its reader has, `b""` for none. Raises Invalid."""
    return await read_bytes(request, LARGEST)


def packed_response(packed: Packed) -> StreamingResponse:
    """Return the answer with an archive. Its connection is cut if the archive does not come to its end."""
    headers = {TOKEN: packed.token or PREPARED, SIGNER: packed.signer}
    return StreamingResponse(packed.blocks, headers=headers, media_type="application/x-tar")
