"""Commands over declarations: validate, apply, approve."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.confirming import asks, confirm_planned
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import Namespace, State, Yes
from tenantry.cli.arguments.sources import DEFAULT_SOURCE, nothing_read_in
from tenantry.cli.arguments.texts import standard_input
from tenantry.cli.output.changes import passed_over_line
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import BAD_INPUT, Failure, say

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document
    from tenantry.model.tree import SourceProblem

APPLIED = "apply"
"""The source for which `apply -f` is planned: one that owns nothing, so that nothing is pruned."""
PATH_HELP = "A folder or a file of YAML; - for standard input."


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("validate", epilog=examples("tenantry validate platform/"))(validate)
    app.command("apply", epilog=examples("tenantry apply -f environment.yaml", "tenantry apply --plan release.plan"))(apply)
    app.command("approve", epilog=examples("tenantry approve", "tenantry approve source/apps -n tenant-acme"))(approve)


@contextmanager
def given(path: Path) -> Iterator[Path]:
    """The path of the declarations; for `-`, a file with standard input. Raises Failure for too much of it."""
    if str(path) != "-":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
        from tenantry.adapters.sources.read import LARGEST_FILE

        file = Path(folder) / "stdin.yaml"
        file.write_bytes(standard_input(LARGEST_FILE))
        yield file


def validate(
    path: Annotated[Path, typer.Argument(metavar="PATH", help=PATH_HELP, callback=path_options.anything_or_pipe)],
) -> None:
    """Checks declarations without applying them. Each finding is `file:line: field: reason`; exit code 2.

    Warns of namespaces that no Tenant among them owns.
    """
    import asyncio

    from tenantry.cli.clients.reading import checked
    from tenantry.model.wording import agreeing, counted
    from tenantry.runtime.sources.ownership import warnings_of

    with given(path) as files:
        tree = asyncio.run(checked(files))
    for problem in tree.problems:
        write(_placed(problem, path))
    if tree.problems:
        raise typer.Exit(BAD_INPUT)
    for warning in warnings_of(tree):
        say(f"warning: {warning}")
    count = len(tree.documents)
    if not count and not tree.passed_over:
        raise _without_declarations(path)
    if tree.passed_over:
        say(f"{path}: {passed_over_line(tree.passed_over)}")
    write(f"{path}: {counted(count, 'document')} {agreeing(count, 'is')} valid")


def _without_declarations(path: Path) -> Failure:
    reason = nothing_read_in(path)
    return Failure(f"{path}: holds no declaration{f': {reason}' if reason else ''}", BAD_INPUT)


def _placed(problem: SourceProblem, path: Path) -> str:
    """The problem with its file as one opens it from the working folder. path: what was given."""
    if str(path) == "-":
        return str(problem)
    file = path / problem.file if path.is_dir() else path
    return str(replace(problem, file=os.path.normpath(file)))


def apply(
    path: Annotated[Path | None, typer.Option("--filename", "-f", help=PATH_HELP, callback=path_options.anything_or_pipe)] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="A file of `plan -o plan`: that is done, or nothing is.", callback=path_options.a_file),
    ] = None,
    yes: Yes = False,
    state: State = STATE,
) -> None:
    """Creates or changes what the files declare, and stores the packages that they name; it prunes nothing.

    With --plan it does what was planned, and -f names the folder of the plan if it has moved.
    """
    from tenantry.cli.clients.connect import with_console

    if plan is not None:
        from tenantry.cli.commands.planning.plan import apply_saved

        apply_saved(plan, path, state, yes)
        return
    if path is None:
        raise Failure("name what is to be applied: -f PATH, or --plan FILE", BAD_INPUT)
    with given(path) as files:
        with_console(state, lambda console: _apply(console, files.absolute(), asks(yes), path))


async def _apply(console: Console, files: Path, ask: bool, path: Path) -> None:
    """path: what was given, by which problems are named; files: where it is."""
    from tenantry.cli.clients.reading import read_through

    if ask:
        await confirm_planned(console, str(files), APPLIED)

    tree = await read_through(console, files)
    if tree.problems:
        raise Failure("\n".join(_placed(problem, path) for problem in tree.problems), BAD_INPUT)
    if not tree.documents:
        raise _without_declarations(path)
    running = bool((await console.about()).url)
    refused = [each for document in tree.documents if (each := await _apply_one(console, document.document, running))]
    if refused:
        raise Failure("\n".join(refused))


async def _apply_one(console: Console, document: Document, running: bool) -> str:
    """Return the reason of a refusal, or `""`."""
    from tenantry.cli.clients.reading import applied_within
    from tenantry.model.resource import ref_of
    from tenantry.model.verdicts import Halt, NotFound

    ref = ref_of(document)
    try:
        applied = await applied_within(console, document, running)
    except NotFound as halt:
        hint = "" if running else "; a tenant's namespace is made while `tenantry up` runs"
        return f"{ref}: {halt.verdict.message}{hint}"
    except Halt as halt:
        about = halt.verdict.message
        return about if about.startswith(f"{ref} ") else f"{ref}: {about}"
    write(f"{ref.kind.lower()}/{ref.name} {applied.outcome}")
    return ""


def approve(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The name of the source that `up` follows, or source/NAME.")
    ] = DEFAULT_SOURCE,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Lets a source prune the objects that it holds back now: too many at once, or with data."""
    from tenantry.cli.clients.connect import with_console

    with_console(state, lambda console: _approve(console, source, namespace))


async def _approve(console: Console, source: str, namespace: str) -> None:
    from tenantry.cli.arguments.finding import followed_source

    followed = await followed_source(console, source, namespace) if "/" in source else source
    if not followed:
        await _approve_declared(console, source, namespace)
        return
    pruned = await console.approve(followed)
    for each in pruned:
        write(f"{each} approved")
    if not pruned:
        say(f"nothing in {followed} waits for approval")


async def _approve_declared(console: Console, source: str, namespace: str) -> None:
    """Approve the objects that the status of a Source lists as kept, and no others."""
    from tenantry.cli.arguments.finding import find
    from tenantry.cli.output.documents import name_of
    from tenantry.kinds.source.spec import Source
    from tenantry.model.resource import PRUNE_APPROVED, ref_of

    kind, document = await find(console, source, namespace)
    if kind.kind != Source.KIND:
        raise Failure(f"{name_of(document)} is not a Source: nothing in it waits for approval", BAD_INPUT)
    status = document.get("status", {})
    if not status.get("approval"):
        say(f"nothing in {name_of(document)} waits for approval")
        return
    await console.patch(ref_of(document), {"metadata": {"annotations": {PRUNE_APPROVED: status["approval"]}}})
    for each in status["kept"]:
        write(f"{each['object']} approved")
