"""An engine in a process of its own, to be killed.

`python -m tests.crash.row_server FOLDER [DATABASE_URL]` prints its URL and a token of `ed`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.rest.uploads import Uploads
from tests.scenario.serving import serving


async def serve(folder: Path, database_url: str | None) -> None:
    engine = await Engine.open(folder / "data", database_url=database_url)
    served = Served(engine, folder / "data" / "token-key.jwk")
    identity = next(each for each in await engine.identities() if each.username == "ed")
    async with serving(engine_app(lambda request: served, Uploads(folder / "incoming"))) as url:
        _, stamp = await engine.identity(identity.id)
        print(url, await served.issue(identity, stamp), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
