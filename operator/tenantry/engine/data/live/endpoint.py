"""GET /data/{app}/{table}/changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import sqlalchemy as sa
from starlette.requests import Request

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.live import log
from tenantry.engine.data.live.log import Epoch
from tenantry.engine.data.live.streaming import ChangeStream
from tenantry.engine.data.signing import Signed, proven

SEGMENT = b"changes"
"""The last part of the path, as it was sent. A row with this key is read as `%63hanges`."""


def is_live(request: Request) -> bool:
    """Return True if the path ends in SEGMENT as it stands."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0]
    return raw.rpartition(b"/")[2] == SEGMENT


async def changes_of(request: Request, app: str, table: str, signed: Signed, renewed: Signed) -> ChangeStream:
    """The changes of a table from now on, or from Last-Event-ID on. renewed: signs the same request in once more, uncounted.

    Raises Unauthorized, Forbidden, NotFound, TooManyStreams, Halt.
    """

    def allowed(exposure: Exposure, roles: Mapping[str, str]) -> Exposed:
        exposed = exposure.table(table)
        exposure.require(table, roles, "read")
        return exposed

    def find(connection: sa.Connection, exposure: Exposure, roles: Mapping[str, str]) -> Epoch | None:
        return log.find(connection, allowed(exposure, roles))

    def begin(connection: sa.Connection, exposure: Exposure, roles: Mapping[str, str]) -> Epoch:
        return log.begin(connection, allowed(exposure, roles))

    engine, caller = await signed(request)
    async with engine.live.entering:
        epoch = await proven(caller, lambda known: engine.rows.run(app, known, find))
        if epoch is None:
            epoch = await proven(caller, lambda known: engine.rows.run(app, known, begin, write=True))

    async def look() -> None:
        again, caller = await renewed(request)
        await proven(caller, lambda known: again.rows.run(app, known, lambda _, exposure, roles: allowed(exposure, roles)))

    return await engine.live.listen(epoch, request.headers.get("last-event-id", ""), _key(request, app, table), look)


def _key(request: Request, app: str, table: str) -> bytes:
    """A digest of the credentials and the table: who has the same has the same rights."""
    given = [request.headers.get(name, "") for name in ("authorization", "cookie")]
    return hashlib.blake2b("\0".join([*given, app, table]).encode("latin-1", "replace"), digest_size=16).digest()
