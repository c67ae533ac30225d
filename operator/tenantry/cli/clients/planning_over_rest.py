"""`plan` where the platform runs elsewhere: the source is read here, and sent to a facade, which has the engines' keys."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.bundled import KeptPackages
from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.url import source_of
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.bootstrap.sources import SourceSettings, open_source
from tenantry.cli.arguments.configuration import load
from tenantry.cli.clients.pushing import error_of
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.hosts.console.protocol import KeptReport, PlanReport
from tenantry.kinds.admission import Admission
from tenantry.model.resource import Document
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.rest.plan_bundle import MEDIA_TYPE, write_bundle
from tenantry.runtime.planning.planned import Step

TIMEOUT_S = 600.0


def plan_over_rest(source: str, name: str, server: str, token: str) -> PlanReport:
    """The plan for following a folder (absolute) or a repository there. Blocks. Raises Failure, Halt."""
    if not token:
        raise Failure("--server needs --token (or TENANTRY_TOKEN)", BAD_INPUT)
    with tempfile.TemporaryDirectory(prefix="tenantry-plan-") as folder:
        tree, packages, history = asyncio.run(read_source(source, Path(folder)))
        problems = (*tree.problems, *tree.held)
        if problems or tree.away:
            return PlanReport((), (), "", tuple(map(str, problems)) or (tree.away,), passed_over=tree.passed_over)
        bundle = Path(folder) / "bundle.zip"
        write_bundle(bundle, tree, name, packages, history)
        # Counted here: a facade of an earlier release does not answer it.
        return replace(_report(_asked(bundle, server, token)), passed_over=tree.passed_over)


class Read(NamedTuple):
    """A source as it was read. packages: those that it names by path, by sha256; history: its commits, newest first."""

    tree: Tree
    packages: Mapping[str, Path]
    history: tuple[str, ...] = ()


async def read_source(source: str, folder: Path) -> Read:
    """Read a source. folder: for its repository and its packages, and empty. Raises OSError."""
    checked = _as_written(await asyncio.to_thread(Admission))
    packages = KeptPackages(await asyncio.to_thread(FolderBlobs, folder / "packages", inspect))
    files = PackageFiles(packages, build)
    reading = SourceSettings.of(load())
    opened = open_source(source_of(source), folder / "git", checked, files, reading)
    tree = await opened.read()
    return Read(tree, packages.files, await opened.history(tree) if opened.history else ())


def _as_written(admission: Admission) -> Admit:
    """Check documents, and leave defaults to the facade: one of an earlier release refuses fields that it does not know."""

    def checked(document: Document) -> Document:
        admitted = admission.admit(document)
        return {**document, "spec": document.get("spec", {})} if "spec" in admitted else document

    return checked


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
    kept = tuple(KeptReport(**each) for each in body["kept"])
    steps = tuple(Step(**each) for each in body["steps"])
    return PlanReport(tuple(body["changes"]), verdicts, body["digest"], tuple(body["problems"]), kept, steps)
