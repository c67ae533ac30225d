"""`plan` where the platform runs elsewhere: the source is read here, and sent to a facade, which has the engines' keys."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.url import source_of
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.bootstrap.sources import Reading, open_source
from tenantry.cli.configuration import load
from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.pushing import error_of
from tenantry.engine.packages.build import build
from tenantry.engine.packages.check import inspect
from tenantry.hosts.console import KeptBack, PlanReport
from tenantry.kinds.admission import Admission
from tenantry.model.facts import PackageFacts
from tenantry.model.tree import Tree
from tenantry.rest.plan_bundle import MEDIA_TYPE, write_bundle
from tenantry.runtime.planned import Step

TIMEOUT_S = 600.0


@dataclass
class KeptPackages:
    """What a source builds, kept in a folder. files: by sha256."""

    scratch: FolderBlobs
    files: dict[str, Path] = field(default_factory=dict)

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self.scratch.inspect(tenant, sha256)

    async def put(self, tenant: str, package: Path) -> PackageFacts:
        facts = await self.scratch.put(tenant, package)
        self.files[facts.sha256] = await self.scratch.fetch(tenant, facts.sha256)
        return facts


def plan_over_rest(source: str, name: str, server: str, token: str) -> PlanReport:
    """What following a folder (absolute) or a repository would change there. Blocks. Raises Failure, Halt."""
    if not token:
        raise Failure("--server needs --token (or TENANTRY_TOKEN)", BAD_INPUT)
    with tempfile.TemporaryDirectory(prefix="tenantry-plan-") as folder:
        tree, packages = asyncio.run(read_source(source, Path(folder)))
        problems = (*tree.problems, *tree.held)
        if problems or tree.away:
            return PlanReport((), (), "", tuple(map(str, problems)) or (tree.away,))
        bundle = Path(folder) / "bundle.zip"
        write_bundle(bundle, tree, name, packages)
        return _report(_asked(bundle, server, token))


async def read_source(source: str, folder: Path) -> tuple[Tree, Mapping[str, Path]]:
    """What a source declares, and the packages that it names by path, by sha256. folder: for both, and empty. Raises OSError."""
    admission = await asyncio.to_thread(Admission)
    packages = KeptPackages(await asyncio.to_thread(FolderBlobs, folder / "packages", inspect))
    files = PackageFiles(packages, build)
    reading = Reading.of(load())
    opened = open_source(source_of(source), folder / "git", lambda each: admission.admit(each, None), files, reading)
    return await opened.read(), packages.files


def _asked(bundle: Path, server: str, token: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE}
    try:
        with bundle.open("rb") as stream, httpx.Client(headers=headers, timeout=TIMEOUT_S) as client:
            response = client.post(f"{server.rstrip('/')}/api/v1/plans", content=stream)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise Failure(f"{server} cannot be reached: {error}") from error
    if response.is_error:
        raise Failure(f"{server} does not plan it: {error_of(response)}")
    body: dict[str, Any] = response.json()
    return body


def _report(body: Mapping[str, Any]) -> PlanReport:
    verdicts = tuple((each["object"], each["reason"], each["message"]) for each in body["verdicts"])
    kept = tuple(KeptBack(**each) for each in body["kept"])
    steps = tuple(Step(**each) for each in body["steps"])
    return PlanReport(tuple(body["changes"]), verdicts, body["digest"], tuple(body["problems"]), kept, steps)
