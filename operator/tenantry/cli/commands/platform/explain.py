"""`tenantry explain`: the meaning of a reason, without a network."""

from __future__ import annotations

from typing import Annotated

import typer

from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.output.documents import write
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.reasons.entries import address_of, address_of_status
from tenantry.reasons.platform import STATUSES
from tenantry.reasons.table import REASONS


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain", epilog=examples("tenantry explain DataMissing", "tenantry explain 409"))(explain)


def explain(
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Of a condition, an Operation or an error; or an HTTP status.")],
) -> None:
    """Explains a reason: what it means, and what to do."""
    from tenantry.model.wording import did_you_mean

    known = {name.casefold(): name for name in REASONS}
    if reason.casefold() in known:
        name = known[reason.casefold()]
        entry, address = REASONS[name], address_of(name)
    elif reason.isdecimal() and int(reason) in STATUSES:
        name = f"HTTP {reason}"
        entry, address = STATUSES[int(reason)], address_of_status(int(reason))
    else:
        hint = did_you_mean(reason, REASONS).removeprefix("; ") or "a condition shows its reason in `tenantry describe`"
        raise Failure(f"{reason} is not a reason of Tenantry; {hint}", BAD_INPUT)
    write(f"{name}: {entry.meaning}")
    write(f"To do: {entry.action}.")
    write(f"Page:  {address} of a running platform")
