"""The platform of the fairness benchmark, in a process of its own: two tenants, each with an environment.

`python -m tests.bench.fair_server FOLDER` prints its port and tokens as JSON, and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.issuing import issuer
from tenantry.cli.clients.sockets import listening, url_of
from tenantry.cli.processes.serving import loop_factory, serving, tune_collector
from tenantry.model.resource import CREDENTIAL_LABEL
from tenantry.settings import OutboundSettings, Settings
from tests.scenario.rest_world import declare, declare_user

TENANTS = ("attacker", "neighbour")
LOOPBACK = Settings(outbound=OutboundSettings(networks="127.0.0.0/8"))


@asynccontextmanager
async def served(state: Path, databases: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[dict[str, Any]]:
    """A platform with both tenants: its port, and its tokens and ids of environments by tenant.

    databases: PostgreSQL URLs by tenant; SQLite for the others."""
    bound = listening("127.0.0.1", 0)
    platform = await Platform.open(state, url_of(bound), settings=LOOPBACK)
    try:
        await platform.start()
        await declare(platform, "Region", "here", {})
        tokens, environments = {}, {}
        for tenant in TENANTS:
            await declare(platform, "Tenant", tenant, {})
            await declare_user(platform, f"{tenant}-admin", "ADMIN", tenant)
        await platform.converged()
        for tenant in TENANTS:
            await _declare_environment(platform, tenant, databases.get(tenant, ""))
        await platform.converged()
        for tenant in TENANTS:
            tokens[tenant] = await issuer(platform)(f"{tenant}-admin", timedelta(hours=2))
            environments[tenant] = next(each.id for each in platform.state.cache.resources("Environment", f"tenant-{tenant}"))
        async with serving(platform.http, bound):
            yield {"port": bound.getsockname()[1], "tokens": tokens, "environments": environments}
    finally:
        await platform.close()


async def _declare_environment(platform: Platform, tenant: str, database: str) -> None:
    namespace, spec = f"tenant-{tenant}", {"region": "here"}
    if not database:
        await declare(platform, "Environment", "dev", spec, namespace)
        return
    metadata = {"name": "database", "namespace": namespace, "labels": {CREDENTIAL_LABEL: "environment"}}
    data = {"url": base64.b64encode(database.encode()).decode()}
    await platform.state.writing.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    engine = {"database": {"secretRef": {"name": "database", "key": "url"}}}
    await declare(platform, "Environment", "dev", {**spec, "engine": engine}, namespace)


async def serve(state: Path) -> None:
    """Print where it is served, and serve until the input ends."""
    async with served(state) as told:
        tune_collector()
        print(json.dumps(told), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(Path(sys.argv[1])))
