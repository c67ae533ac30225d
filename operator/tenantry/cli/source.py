"""Commands over declarations: validate, apply, approve."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.failing import BAD_INPUT, Failure, say
from tenantry.cli.options import STATE, Namespace, State
from tenantry.cli.output import write

if TYPE_CHECKING:
    from tenantry.hosts.console import Console
    from tenantry.model.resource import Document

SourceName = Annotated[str, typer.Option("--source-name", help="Which objects are the source's own.")]
DEFAULT_SOURCE = "default"
PATH_HELP = "A folder or a file of YAML; - for standard input."
SOURCE_HELP = "A folder or a file of YAML, or a repository: git+https://HOST/REPOSITORY@BRANCH:PATH."


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("validate")(validate)
    app.command("apply")(apply)
    app.command("approve")(approve)


def existing(path: Path) -> Path:
    """The path of a source. Raises Failure when nothing is there."""
    if not path.exists():
        raise Failure(f"{path}: no such file or directory", BAD_INPUT)
    return path


@contextmanager
def given(path: Path) -> Iterator[Path]:
    """Where to read what is declared; for `-`, standard input, a file of that name. Raises Failure when nothing is there."""
    if str(path) != "-":
        yield existing(path)
        return
    with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
        file = Path(folder) / "stdin.yaml"
        file.write_bytes(sys.stdin.buffer.read())
        yield file


def located(source: str) -> str:
    """A source, so that every process finds it: the absolute path of a folder, or the URL of a repository. Raises Failure."""
    from tenantry.adapters.sources.git.url import is_git_url, parse_git_url

    if not is_git_url(source):
        return str(existing(Path(source)).absolute())
    try:
        return str(parse_git_url(source))
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None


def validate(path: Annotated[Path, typer.Argument(metavar="PATH", help=PATH_HELP)]) -> None:
    """Checks declarations without applying them. Each finding is `file:line: field: reason`; exit code 2.

    Warns of namespaces that no Tenant among them owns.
    """
    import asyncio

    from tenantry.cli.reading import checked
    from tenantry.runtime.ownership import warnings_of

    with given(path) as files:
        tree = asyncio.run(checked(files))
    for problem in tree.problems:
        write(str(problem))
    if tree.problems:
        raise typer.Exit(BAD_INPUT)
    for warning in warnings_of(tree):
        say(f"warning: {warning}")
    count = len(tree.documents)
    write(f"{path}: {count} {'document is' if count == 1 else 'documents are'} valid")


def apply(
    path: Annotated[Path | None, typer.Option("--filename", "-f", help=PATH_HELP)] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="A file of `plan -o plan`: that is done, or nothing is.")] = None,
    state: State = STATE,
) -> None:
    """Creates or changes what the files declare, and stores the packages that they name; it prunes nothing. Or does what was
    planned; -f then tells where what it was made of lies now."""
    from tenantry.cli.connect import with_console

    if plan is not None:
        from tenantry.cli.planning import apply_saved

        apply_saved(existing(plan), path, state)
        return
    if path is None:
        raise Failure("name what is to be applied: -f PATH, or --plan FILE", BAD_INPUT)
    with given(path) as files:
        with_console(state, lambda console: _apply(console, files))


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
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The source's name, or source/NAME of a Source.")
    ] = DEFAULT_SOURCE,
    namespace: Namespace = "",
    state: State = STATE,
) -> None:
    """Lets a source prune what it holds back now: more than its budget, or what holds data."""
    from tenantry.cli.connect import with_console

    if "/" in source:
        with_console(state, lambda console: _approve(console, source, namespace))
        return
    pruned: Sequence[str] = with_console(state, lambda console: console.approve(source))
    for each in pruned:
        write(f"{each} approved")
    if not pruned:
        say(f"nothing of {source} waits for approval")


async def _approve(console: Console, source: str, namespace: str) -> None:
    """Of a Source: what its status tells is kept, exactly that."""
    from tenantry.cli.finding import find
    from tenantry.cli.output import name_of
    from tenantry.kinds.source.spec import Source
    from tenantry.model.resource import PRUNE_APPROVED, ref_of

    kind, document = await find(console, source, namespace)
    if kind.kind != Source.KIND:
        raise Failure(f"{name_of(document)} is no Source: nothing of it waits for an approval", BAD_INPUT)
    status = document.get("status", {})
    if not status.get("approval"):
        say(f"nothing of {name_of(document)} waits for approval")
        return
    await console.patch(ref_of(document), {"metadata": {"annotations": {PRUNE_APPROVED: status["approval"]}}})
    for each in status["kept"]:
        write(f"{each['object']} approved")
