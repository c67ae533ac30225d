"""`tenantry drift`: what in engines is not as it is declared, over all environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.arguments.options import State
from tenantry.cli.output.failing import NOT_DONE

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console
    from tenantry.model.resource import Document


@dataclass(frozen=True)
class Difference:
    """One object that is not as declared. policy: `Warn` (left so) or `Correct` (not mended yet); since: RFC 3339."""

    object: str
    differs: str
    policy: str
    since: str


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drift", epilog=examples("tenantry drift -o json"))(drift)


def drift(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORM", help="The form: table or json.")] = "table",
    state: State = STATE,
) -> None:
    """Lists differences between engines and their declarations, as of the last reconcile. Exit code 1 if there are any."""
    from tenantry.cli.clients.connect import with_console

    if output not in ("table", "json"):
        raise typer.BadParameter("one of table, json", param_hint="--output")
    with_console(state, lambda console: _drift(console, output == "json"))


async def _drift(console: Console, as_json: bool) -> None:
    from tenantry.cli.output.documents import to_json, write
    from tenantry.cli.output.tables import TextTable, print_table
    from tenantry.kinds.registry import CONTENTS

    objects = [each for kind in ("Environment", *CONTENTS) for each in await console.list(kind)]
    unmended = not_corrected(await console.list("Operation"), objects)
    found = sorted((*left_alone(objects), *unmended), key=lambda each: (each.object, each.since))
    if as_json:
        write(to_json([asdict(each) for each in found]))
    elif found:
        rows = [(each.object, each.policy, each.since, each.differs) for each in found]
        print_table(TextTable(("OBJECT", "POLICY", "SINCE", "MESSAGE"), rows))
    else:
        write("Everything is as declared")
    raise typer.Exit(NOT_DONE if found else 0)


def left_alone(documents: Iterable[Document]) -> Iterator[Difference]:
    """The drift that `driftPolicy: Warn` reports."""
    from tenantry.model.resource import DRIFTED, ref_of

    for document in documents:
        for condition in document.get("status", {}).get("conditions", ()):
            if (condition["type"], condition["status"]) == (DRIFTED, "True"):
                since = condition.get("lastTransitionTime") or ""
                yield Difference(str(ref_of(document)), condition.get("message", ""), "Warn", since)


def not_corrected(operations: Iterable[Document], objects: Iterable[Document]) -> Iterator[Difference]:
    """Repairs of `driftPolicy: Correct` that run or failed. A failed Operation counts while it is the last of its object."""
    lasts = {(each.get("status", {}).get("lastOperation") or {}).get("id") for each in objects}
    for operation in operations:
        spec, status = operation["spec"], operation.get("status", {})
        over = status.get("result") == "SUCCESS" or (
            status.get("status") == "COMPLETED" and operation["metadata"]["name"] not in lasts
        )
        if spec["action"] != "CORRECT_DRIFT" or over:
            continue
        target = spec["target"]
        name = "/".join(filter(None, (target["kind"], target.get("namespace"), target["name"])))
        yield Difference(name, "; ".join(spec.get("steps", ())), "Correct", status.get("startedOn") or "")
