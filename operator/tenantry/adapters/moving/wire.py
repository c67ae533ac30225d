"""The headers beside an archive of an engine that moves. The facts of the archive come before it, the signature within."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import StreamingResponse

from tenantry.adapters.moving.blocks import LARGEST, Blocks, parse_blocks
from tenantry.adapters.moving.leaving import Packed
from tenantry.rest.bodies import read_bytes

TOKEN = "Tenantry-Moving"  # noqa: S105 - a header
"""The token of the engine while its archive was read; `prepared` if it was not read-only."""
SIGNER = "Tenantry-Signer"
REF = "Tenantry-Engine"
"""The reference of the engine, as JSON."""
PREPARED = "prepared"


async def earlier_copy(request: Request) -> Blocks | None:
    """Return the digests of the copy that its reader has, which a request for an archive may name. Raises Invalid, ValueError."""
    packed = await read_bytes(request, LARGEST)
    return parse_blocks(packed) if packed else None


def packed_response(packed: Packed) -> StreamingResponse:
    """Return the answer with an archive. Its connection is cut if the archive does not come to its end."""
    headers = {TOKEN: packed.token or PREPARED, SIGNER: packed.signer}
    return StreamingResponse(packed.blocks, headers=headers, media_type="application/x-tar")
