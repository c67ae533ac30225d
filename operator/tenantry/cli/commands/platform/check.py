"""`tenantry check`: problems of this machine, its settings and the state folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments.choosing import CLUSTER
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.kinds import aged
from tenantry.cli.output.check_results import CheckResult
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import NOT_DONE, Failure

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console, SourceReport
    from tenantry.model.resource import Document
    from tenantry.settings import Settings

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = 1 << 30


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check", epilog=examples("tenantry check", "tenantry check --pre-upgrade", "tenantry check --settings"))(check)


def check(
    state: Annotated[Path | None, typer.Option("--state", help="The state folder.", show_default=".tenantry")] = None,
    settings: Annotated[bool, typer.Option("--settings", help="Lists every setting with its value's default.")] = False,
    pre_upgrade: Annotated[
        bool, typer.Option("--pre-upgrade", help="Also shows what would block an upgrade, and what it would restart.")
    ] = False,
) -> None:
    """Checks this machine, the settings, the state folder and the running platform. Exit code 1 when something is wrong."""
    if settings:
        _list_settings()
        return
    wrong = False
    for finding in chain(findings(state), _before_upgrade(state) if pre_upgrade else ()):
        write(str(finding))
        wrong = wrong or finding.wrong
    raise typer.Exit(NOT_DONE if wrong else 0)


def _before_upgrade(state: Path | None) -> Iterator[CheckResult]:
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.commands.platform.pre_upgrade import results

    settings = load(**({"state": state} if state else {}))
    if is_there(settings.state):
        yield from results(settings.state)


def _list_settings() -> None:
    from tenantry.cli.output.tables import TextTable, print_table
    from tenantry.settings import variables

    print_table(TextTable(("VARIABLE", "DEFAULT", "MEANING"), [(name, *rest) for name, rest in variables().items()]))


def findings(state: Path | None) -> Iterator[CheckResult]:
    """Yield each result: of this machine and its folder, or with --context of a cluster, and of the platform there."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield CheckResult("python", version, sys.version_info < OLDEST_PYTHON, "install Python 3.11 or newer")
    settings = None
    for found in _settings(state):
        if isinstance(found, CheckResult):
            yield found
        else:
            settings = found
    if settings is None:
        return
    if CLUSTER.get() is None:
        yield from _folder(settings.state)
    yield from (_platform if is_there(settings.state) else _address)(settings)


def is_there(state: Path) -> bool:
    """Return True if there is a platform to ask: on the cluster that was named, or in the state folder."""
    return CLUSTER.get() is not None or (state / "state.db").exists()


def _settings(state: Path | None) -> Iterator[CheckResult | Settings]:
    from tenantry.cli.arguments.configuration import load
    from tenantry.settings import OF_CLIENTS, PREFIX, variables

    unknown = sorted({name for name in os.environ if name.startswith(PREFIX)} - set(variables()) - OF_CLIENTS)
    for name in unknown:
        yield CheckResult("settings", f"{name}: there is no such setting", True, "tenantry check --settings")
    try:
        yield load(**({"state": state} if state else {}))
    except Failure as failure:
        for line in str(failure).splitlines():
            yield CheckResult("settings", line, True, "tenantry check --settings")
    else:
        if not unknown:
            yield CheckResult("settings", "all are known and valid")


def _folder(state: Path) -> Iterator[CheckResult]:
    """The folder, or where it would be made."""
    if state.exists() and not state.is_dir():
        yield CheckResult("state", f"{state} is not a folder", True, "choose a folder with --state")
        return
    there = state if state.is_dir() else _nearest(state.absolute())
    if not os.access(there, os.W_OK):
        yield CheckResult("state", f"{there} cannot be written", True, "choose another folder with --state")
    free = shutil.disk_usage(there).free
    yield CheckResult(
        "disk", f"{free / (1 << 30):.1f} GiB are free", free < LITTLE_SPACE, "make room: a full disk refuses writes"
    )
    if not state.is_dir():
        yield CheckResult("state", f"{state} does not exist yet; `tenantry up` makes it")
        return
    yield from _orphaned_engines(state)
    for name in ("", "secret.key", "admin-password"):
        path = state / name
        if path.exists() and path.stat().st_mode & 0o077:
            yield CheckResult("state", f"{path} can be read by others", True, f"chmod go= {path}")


def _orphaned_engines(state: Path) -> Iterator[CheckResult]:
    from tenantry.adapters.store.state_folder import StateUnreadable, refuse_orphaned_engines

    if is_there(state):
        return
    try:
        refuse_orphaned_engines(state, "state.db")
    except StateUnreadable as halt:
        yield CheckResult("state", halt.verdict.message, True, "put state.db back from a copy")


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.is_dir())


def _address(settings: Settings) -> Iterator[CheckResult]:
    """The place where `up` would listen, while there is no platform."""
    from tenantry.cli.clients.sockets import listening
    from tenantry.settings import parse_address

    try:
        listening(*parse_address(settings.listen)).close()
    except Failure as failure:
        yield CheckResult("listen", str(failure), True, "choose another address with --listen")


def _platform(settings: Settings) -> Iterator[CheckResult]:
    from tenantry.cli.clients.connect import with_console
    from tenantry.cli.output.failing import sentence_of

    try:
        deadline = settings.operations.deadline
        yield from with_console(settings.state, lambda console: _look(console, deadline, datetime.now(UTC)))
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        yield CheckResult("state" if CLUSTER.get() is None else "cluster", told[0], wrong=True)


def _overdue(operations: Iterable[Document], deadline: timedelta, now: datetime) -> Iterator[CheckResult]:
    """Return the Operations that run longer than they may: nobody works on them, or they never end."""
    for each in operations:
        status = each.get("status", {})
        since = status.get("startedOn") or each["spec"].get("scheduledOn") or each["metadata"].get("creationTimestamp")
        if status.get("status") == "COMPLETED" or not since or now - datetime.fromisoformat(since) <= 2 * deadline:
            continue
        target = each["spec"]["target"]
        about = f"{each['metadata']['name']}: {each['spec']['action']} of {target['kind']} {target['name']}"
        text = f"{about} is {status.get('status', 'QUEUED')} since {since}, longer than it may take ({deadline})"
        yield CheckResult("operations", text, True, f"tenantry logs {each['metadata']['name']}")


async def _look(console: Console, deadline: timedelta, now: datetime) -> list[CheckResult]:
    """The platform's report about itself."""
    from tenantry.cli.output.progress import not_ready
    from tenantry.kinds.registry import KINDS

    about = await console.about()
    findings = [
        CheckResult("platform", f"{about.release} runs at {about.url}" if about.url else f"nothing runs on {about.state}")
    ]
    findings += [CheckResult("background", fault, wrong=True) for fault in about.faults]
    if about.source:
        report = await console.source()
        findings.append(CheckResult("source", _looked_at(report), bool(report.away), f"tenantry reconcile source/{report.name}"))
        findings += [CheckResult("source", problem, wrong=True) for problem in report.problems]
        findings += [
            CheckResult("source", f"warning: {each} is not encrypted there; see docs/secrets.md") for each in report.exposed
        ]
        findings += _kept(report)
        findings += [CheckResult("source", f"{ref} is not applied yet: {why}", wrong=True) for ref, why in report.waiting]
    findings += await _orphans(console)
    findings += _overdue(await console.list("Operation"), deadline, now)
    documents = [document for kind in KINDS for document in await console.list(kind)]
    waiting = not_ready(iter(documents))
    findings += [
        CheckResult("objects", f"{object_}: {reason}: {message}", True, _describe(object_))
        for object_, reason, message in waiting
    ]
    findings.append(CheckResult("objects", f"{len(documents) - len(waiting)} of {len(documents)} are Ready"))
    return findings


async def _orphans(console: Console) -> list[CheckResult]:
    """Return the engines that no Environment has. Nothing is wrong with them: `deletionPolicy: Retain` leaves some on purpose."""
    from tenantry.kinds.environment.orphaned import way_out
    from tenantry.model.verdicts import Forbidden

    try:
        orphans = await console.orphans()
    except Forbidden:
        return [CheckResult("engines", "cannot be compared with their Environments: your account may not list namespaces")]
    lines = [
        f"{each.place} holds the engine {each.id} of {each.namespace}/{each.name}, which no Environment has: {way_out(each)}"
        for each in orphans
    ]
    return [CheckResult("engines", line) for line in lines] or [CheckResult("engines", "each has its Environment")]


def _describe(object_: str) -> str:
    """Return the command that shows an object in full. object_: KIND/NAMESPACE/NAME or KIND/NAME."""
    kind, _, name = object_.partition("/")
    return f"tenantry describe {kind.lower()}/{name}"


def _looked_at(report: SourceReport) -> str:
    """Return the place of a source, its applied commit, and the time since which it cannot be read."""
    from tenantry.model.wording import counted

    revision = f" at {report.revision[:12]}" if report.revision else ""
    away = f"; it cannot be read {report.away}" if report.away else ""
    passed_over = f" ({report.passed_over} of other groups passed over)" if report.passed_over else ""
    read = f"{aged(report.synced)} ago" if report.synced else "not yet"
    return f"{report.name}: {report.location}{revision}, {counted(report.documents, 'document')}{passed_over}, read {read}{away}"


def _kept(report: SourceReport) -> Iterator[CheckResult]:
    """Return what left the source and is kept, a line for each reason. While a file is broken, that file is what is wrong."""
    from tenantry.model.wording import and_more

    groups: dict[tuple[str, bool], list[str]] = {}
    for each in report.kept:
        groups.setdefault((each.reason, each.approvable), []).append(each.object)
    for (reason, approvable), objects in groups.items():
        are, them = ("is", "it") if len(objects) == 1 else ("are", "them")
        hint = f"; `tenantry approve {report.name}` deletes {them}" if approvable else ""
        told = f"{and_more(objects)} left the source and {are} kept: {reason}{hint}"
        yield CheckResult("source", told, wrong=approvable or not report.problems)
