"""`tenantry check`: what is wrong with this machine, its settings and the state folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tenantry.cli.failing import NOT_DONE, Failure
from tenantry.cli.output import write

if TYPE_CHECKING:
    from tenantry.hosts.console import Console, KeptBack, SourceReport
    from tenantry.model.resource import Document
    from tenantry.settings import Settings

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = 1 << 30


class Finding(NamedTuple):
    """One thing that was looked at. wrong: a person should act."""

    subject: str
    text: str
    wrong: bool = False

    def __str__(self) -> str:
        return f"{'WRONG' if self.wrong else 'ok':<6}{self.subject}: {self.text}"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check")(check)


def check(
    state: Annotated[Path | None, typer.Option("--state", help="The state folder.", show_default=".tenantry")] = None,
    settings: Annotated[bool, typer.Option("--settings", help="Lists every setting with its value's default.")] = False,
) -> None:
    """Looks at this machine, the settings, the state folder and the running platform. Exit code 1 when something is wrong."""
    if settings:
        _list_settings()
        return
    wrong = False
    for finding in _findings(state):
        write(str(finding))
        wrong = wrong or finding.wrong
    raise typer.Exit(NOT_DONE if wrong else 0)


def _list_settings() -> None:
    from tenantry.cli.output import Table, print_table
    from tenantry.settings import variables

    print_table(Table(("VARIABLE", "DEFAULT", "MEANING"), [(name, *rest) for name, rest in variables().items()]))


def _findings(state: Path | None) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", version, sys.version_info < OLDEST_PYTHON)
    settings = None
    for found in _settings(state):
        if isinstance(found, Finding):
            yield found
        else:
            settings = found
    if settings is None:
        return
    yield from _folder(settings.state)
    yield from _platform(settings)


def _settings(state: Path | None) -> Iterator[Finding | Settings]:
    from tenantry.cli.configuration import load
    from tenantry.settings import OF_CLIENTS, PREFIX, variables

    unknown = sorted({name for name in os.environ if name.startswith(PREFIX)} - set(variables()) - OF_CLIENTS)
    for name in unknown:
        yield Finding("settings", f"{name}: there is no such setting", wrong=True)
    try:
        yield load(**({"state": state} if state else {}))
    except Failure as failure:
        for line in str(failure).splitlines():
            yield Finding("settings", line, wrong=True)
    else:
        if not unknown:
            yield Finding("settings", "all are known and valid")


def _folder(state: Path) -> Iterator[Finding]:
    """The folder, or where it would be made."""
    there = state if state.is_dir() else _nearest(state.absolute())
    if not os.access(there, os.W_OK):
        yield Finding("state", f"{there} cannot be written", wrong=True)
    free = shutil.disk_usage(there).free
    yield Finding("disk", f"{free / (1 << 30):.1f} GiB are free", wrong=free < LITTLE_SPACE)
    if not state.is_dir():
        yield Finding("state", f"{state} does not exist yet; `tenantry up` makes it")
        return
    for name in ("", "secret.key", "admin-password"):
        path = state / name
        if path.exists() and path.stat().st_mode & 0o077:
            yield Finding("state", f"{path} can be read by others; chmod go= it", wrong=True)


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.is_dir())


def _platform(settings: Settings) -> Iterator[Finding]:
    from tenantry.cli.connect import with_console
    from tenantry.cli.failing import sentence_of
    from tenantry.cli.sockets import listening
    from tenantry.settings import parse_address

    if not (settings.state / "state.db").exists():
        try:
            listening(*parse_address(settings.listen)).close()
        except Failure as failure:
            yield Finding("listen", str(failure), wrong=True)
        return
    try:
        deadline = settings.operations.deadline
        yield from with_console(settings.state, lambda console: _look(console, deadline, datetime.now(UTC)))
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        yield Finding("state", told[0], wrong=True)


def _overdue(operations: Iterable[Document], deadline: timedelta, now: datetime) -> Iterator[str]:
    """The Operations that still run though their time is over: nobody works on them, or it never ends."""
    for each in operations:
        status = each.get("status", {})
        since = status.get("startedOn") or each["spec"].get("scheduledOn") or each["metadata"].get("creationTimestamp")
        if status.get("status") == "COMPLETED" or not since or now - datetime.fromisoformat(since) <= 2 * deadline:
            continue
        target = each["spec"]["target"]
        about = f"{each['metadata']['name']}: {each['spec']['action']} of {target['kind']} {target['name']}"
        yield f"{about} is {status.get('status', 'QUEUED')} since {since}, longer than it may take ({deadline})"


async def _look(console: Console, deadline: timedelta, now: datetime) -> list[Finding]:
    """What the platform says of itself."""
    from tenantry.cli.progress import not_ready
    from tenantry.kinds.registry import KINDS

    about = await console.about()
    findings = [Finding("platform", f"{about.release} runs at {about.url}" if about.url else f"nothing runs on {about.state}")]
    findings += [Finding("background", fault, wrong=True) for fault in about.faults]
    if about.source:
        report = await console.source()
        findings.append(Finding("source", _looked_at(report), wrong=bool(report.away)))
        findings += [Finding("source", problem, wrong=True) for problem in report.problems]
        findings += [Finding("source", f"warning: {each} is not encrypted there; see docs/secrets.md") for each in report.exposed]
        findings += [Finding("source", _kept(each, report.name), wrong=True) for each in report.kept]
        findings += [Finding("source", f"{ref} is not applied yet: {why}", wrong=True) for ref, why in report.waiting]
    findings += [Finding("operations", each, wrong=True) for each in _overdue(await console.list("Operation"), deadline, now)]
    documents = [document for kind in KINDS for document in await console.list(kind)]
    waiting = not_ready(iter(documents))
    findings += [Finding("objects", f"{object_}: {reason}: {message}", wrong=True) for object_, reason, message in waiting]
    findings.append(Finding("objects", f"{len(documents) - len(waiting)} of {len(documents)} are Ready"))
    return findings


def _looked_at(report: SourceReport) -> str:
    """Where it is, what of it is applied, and since when it could not be read."""
    revision = f" at {report.revision[:12]}" if report.revision else ""
    away = f"; it cannot be read {report.away}" if report.away else ""
    return f"{report.name}: {report.location}{revision}, {report.documents} documents, read {report.synced or 'not yet'}{away}"


def _kept(kept: KeptBack, source: str) -> str:
    hint = f"; `tenantry approve {source}` lets it go" if kept.approvable else ""
    return f"{kept.object} left the source and is kept: {kept.reason}{hint}"
