"""Commands over declarations: validate, plan, apply, approve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure, say, sentence_of
from tenantry.cli.options import STATE, Output, State
from tenantry.cli.output import Format, to_json, to_yaml, write

if TYPE_CHECKING:
    from tenantry.hosts.console import Console, PlanReport
    from tenantry.model.resource import Document

SourceName = Annotated[str, typer.Option("--source-name", help="Which objects are the source's own.")]
DEFAULT_SOURCE = "default"
SOURCE_HELP = "A folder or a file of YAML, or a repository: git+https://HOST/REPOSITORY@BRANCH:PATH."
CHANGES = 1


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("validate")(validate)
    app.command("plan")(plan)
    app.command("apply")(apply)
    app.command("approve")(approve)


def existing(path: Path) -> Path:
    """The path of a source. Raises Failure when nothing is there."""
    if not path.exists():
        raise Failure(f"{path}: no such file or directory", BAD_INPUT)
    return path


def located(source: str) -> str:
    """A source, so that every process finds it: the absolute path of a folder, or the URL of a repository. Raises Failure."""
    from tenantry.adapters.sources.git.url import is_git_url, parse_git_url

    if not is_git_url(source):
        return str(existing(Path(source)).absolute())
    try:
        return str(parse_git_url(source))
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None


def validate(path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder or a file of YAML.")]) -> None:
    """Checks declarations without applying them. Each finding is `file:line: field: reason`; exit code 2."""
    import asyncio

    from tenantry.cli.reading import checked

    tree = asyncio.run(checked(existing(path)))
    for problem in tree.problems:
        write(str(problem))
    if tree.problems:
        raise typer.Exit(BAD_INPUT)
    count = len(tree.documents)
    write(f"{path}: {count} {'document is' if count == 1 else 'documents are'} valid")


def plan(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    source_name: SourceName = DEFAULT_SOURCE,
    output: Output = Format.TABLE,
    state: State = STATE,
) -> None:
    """Tells what `up SOURCE` would change, and does nothing. Exit code 0: no change, 1: changes, 2: an error."""
    from tenantry.cli.connect import with_console

    try:
        report = with_console(state, lambda console: console.plan(located(source), source_name), fresh=True)
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise
        raise Failure(told[0], BAD_INPUT) from error
    _print_plan(report, output)
    if report.problems:
        raise Failure("\n".join(report.problems), BAD_INPUT)
    raise typer.Exit(CHANGES if report.changes else 0)


def _print_plan(report: PlanReport, output: Format) -> None:
    if output in (Format.JSON, Format.YAML):
        body = report.to_json()
        write(to_json(body) if output is Format.JSON else to_yaml([body]))
        return
    for change in report.changes:
        write(change)
    for object_, reason, message in report.verdicts:
        write(f"! {object_}: {reason}: {message}")
    for kept in report.kept:
        write(f"= {kept.object}: is kept: {kept.reason}")
    signs = [change[:1] for change in report.changes]
    created, changed, deleted = (signs.count(sign) for sign in "+~-")
    say(f"{created} to create, {changed} to change, {deleted} to delete" if report.changes else "no changes")


def apply(
    path: Annotated[Path, typer.Option("--filename", "-f", help="A folder or a file of YAML.")], state: State = STATE
) -> None:
    """Creates or changes what the files declare, and stores the packages that they name; it prunes nothing."""
    from tenantry.cli.connect import with_console

    existing(path)
    with_console(state, lambda console: _apply(console, path))


async def _apply(console: Console, path: Path) -> None:
    from tenantry.cli.reading import read_through

    tree = await read_through(console, path)
    if tree.problems:
        raise Failure("\n".join(map(str, tree.problems)), BAD_INPUT)
    running = bool((await console.about()).url)
    refused = [each for document in tree.documents if (each := await _apply_one(console, document.document, running))]
    if refused:
        raise Failure("\n".join(refused))


async def _apply_one(console: Console, document: Document, running: bool) -> str:
    """Why it was refused, `""` when it was not."""
    from tenantry.cli.reading import applied_within
    from tenantry.model.resource import ref_of
    from tenantry.model.verdicts import Halt, NotFound

    ref = ref_of(document)
    try:
        applied = await applied_within(console, document, running)
    except NotFound as halt:
        hint = "" if running else "; a tenant's namespace is made while `tenantry up` runs"
        return f"{ref}: {halt.verdict.message}{hint}"
    except Halt as halt:
        return f"{ref}: {halt.verdict.message}"
    write(f"{ref.kind.lower()}/{ref.name} {applied.outcome}")
    return ""


def approve(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name.")] = DEFAULT_SOURCE,
    state: State = STATE,
) -> None:
    """Lets a source prune what it holds back now: more than its budget, or what holds data."""
    from tenantry.cli.connect import with_console

    pruned: Sequence[str] = with_console(state, lambda console: console.approve(source))
    for each in pruned:
        write(f"{each} approved")
    if not pruned:
        say(f"nothing of {source} waits for approval")
