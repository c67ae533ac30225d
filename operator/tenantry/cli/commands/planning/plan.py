"""Plans: shown, saved, as a comment on a pull request, and carried out later as they were saved."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.confirming import asks, confirm
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Server, SourceName, State, Token
from tenantry.cli.arguments.sources import DEFAULT_SOURCE, SOURCE_HELP, located, warn_of_nothing_read
from tenantry.cli.output.changes import passed_over_line, write_change
from tenantry.cli.output.documents import to_json, to_yaml, write
from tenantry.cli.output.failing import BAD_INPUT, NOT_DONE, Failure, say, sentence_of

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Approved, Console, KeptReport, PlanReport

PLAN_VERSION = "tenantry.dev/plan/v1"
CHANGES = 1
_TEXT = ("source", "sourceName", "digest")


class PlanFormat(StrEnum):
    """The values of `plan -o`. PLAN: a file for `apply --plan`; MARKDOWN: a comment on a pull request."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    PLAN = "plan"
    MARKDOWN = "markdown"


FORM = "The form: table, json, yaml, markdown, or plan: a file for `apply --plan`."


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("plan", epilog=examples("tenantry plan platform/", "tenantry plan platform/ -o plan > release.plan"))(plan)


def plan(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    source_name: SourceName = DEFAULT_SOURCE,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", metavar="FORM", help=FORM)] = PlanFormat.TABLE,
    markdown: Annotated[bool, typer.Option("--markdown", help="A comment on a pull request; as -o markdown.")] = False,
    server: Server = "",
    token: Token = "",
    state: State = STATE,
) -> None:
    """Shows what applying SOURCE would change, and does nothing. Exit code 0: no change, 1: changes, 2: an error."""
    where = located(source)
    warn_of_nothing_read(source)
    try:
        report = _planned(where, source_name, server, token, state)
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        raise Failure(told[0], BAD_INPUT) from error
    _print(report, PlanFormat.MARKDOWN if markdown else output, where, source_name)
    if report.problems:
        raise Failure("\n".join(report.problems), BAD_INPUT)
    raise typer.Exit(CHANGES if report.changes else 0)


def _planned(where: str, name: str, server: str, token: str, state: Path) -> PlanReport:
    """By the facade where one is named, else by the platform of the state folder."""
    if server:
        from tenantry.cli.clients.planning_over_rest import plan_over_rest

        return plan_over_rest(where, name, server, token)
    from tenantry.cli.clients.connect import with_console

    return with_console(state, lambda console: console.plan(where, name), fresh=True)


def apply_saved(file: Path, source: Path | None, state: Path, yes: bool) -> None:
    """Carries out a plan file. source: where what it was made of lies by now. Raises Failure, Halt."""
    from tenantry.cli.clients.connect import with_console

    saved = _read(file)
    approved = saved._replace(source=located(str(source or saved.source)))
    if asks(yes):
        confirm(approved.changes)
    kept, waiting = with_console(state, lambda console: _apply(console, approved), made=True)
    for each in kept:
        write(kept_line(each))
    if any(each.approvable for each in kept):
        say(f"to delete the kept objects, run: tenantry approve {saved.name}")
    for object_, reason, message in waiting:
        say(f"{object_}: {reason}: {message}")
    if kept or waiting:
        raise typer.Exit(NOT_DONE)


async def _apply(console: Console, approved: Approved) -> tuple[Sequence[KeptReport], list[tuple[str, str, str]]]:
    """Return what left the source and is kept, and what is not Ready afterwards."""
    from tenantry.cli.output.progress import not_ready
    from tenantry.kinds.registry import KINDS

    kept = await console.apply_plan(approved)
    for line in approved.changes:
        write(line)
    return kept, not_ready([document for kind in KINDS for document in await console.list(kind)])


def summary_of(report: PlanReport) -> str:
    """One line: how much of what."""
    signs = [step.sign for step in report.steps]
    if report.problems:
        return "the source is refused"
    if not signs:
        return "no changes"
    created, changed, deleted = (signs.count(sign) for sign in "+~-")
    losing = f", {signs.count('-/+')} losing data" if "-/+" in signs else ""
    return f"{created} to create, {changed} to change, {deleted} to delete{losing}"


def _print(report: PlanReport, output: PlanFormat, source: str, name: str) -> None:
    body = {**report.to_json(), "steps": [step._asdict() for step in report.steps]}
    match output:
        case PlanFormat.JSON:
            write(to_json(body))
        case PlanFormat.YAML:
            write(to_yaml([body]))
        case PlanFormat.MARKDOWN:
            from tenantry.cli.output.markdown import comment

            write(comment(report, summary_of(report)))
        case PlanFormat.PLAN if not report.problems:
            saved = {"apiVersion": PLAN_VERSION, "source": source, "sourceName": name}
            write(to_json(saved | {key: body[key] for key in ("digest", "changes", "verdicts", "kept")}))
            _say_summary(report)
        case PlanFormat.TABLE:
            _print_lines(report)


def kept_line(kept: KeptReport) -> str:
    """The line of an object that left its source and stays for now."""
    return f"= {kept.object}: is kept: {kept.reason}"


def _print_lines(report: PlanReport) -> None:
    for change in report.changes:
        write_change(change)
    for object_, reason, message in report.verdicts:
        write_change(f"! {object_}: {reason}: {message}")
    for kept in report.kept:
        write_change(kept_line(kept))
    _say_summary(report)


def _say_summary(report: PlanReport) -> None:
    if report.passed_over:
        say(passed_over_line(report.passed_over))
    say(summary_of(report))


def _read(file: Path) -> Approved:
    """Raises Failure for what `-o plan` did not write."""
    import json

    from tenantry.hosts.console.protocol import Approved

    try:
        body: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise _no_plan(file) from None
    if not isinstance(body, dict) or body.get("apiVersion") != PLAN_VERSION:
        raise _no_plan(file)
    source, name, digest = (body.get(key) for key in _TEXT)
    changes = body.get("changes")
    if not all(isinstance(each, str) for each in (source, name, digest)) or not isinstance(changes, list):
        raise _no_plan(file)
    return Approved(str(source), str(name), str(digest), tuple(map(str, changes)))


def _no_plan(file: Path) -> Failure:
    return Failure(f"{file} is not a plan; `tenantry plan SOURCE -o plan > FILE` makes one", BAD_INPUT)
