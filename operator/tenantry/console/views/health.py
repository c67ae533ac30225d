"""The health page: figures that alerts watch, the slowest kinds, and the last failures with their traces. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tenantry.console.reading.orders import AGE
from tenantry.console.reading.summary import Summary
from tenantry.console.views.rows import Reading
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.states import NEEDS_YOU
from tenantry.runtime.health import PlatformMeasures, figures, slowest_first
from tenantry.tracing.context import trace_id_of

FAILURES = 10
LOOKED_AT = 2_000
"""Operations among which the last failures are sought, the newest first."""


def health(reading: Reading, measures: PlatformMeasures) -> dict[str, Any]:
    """The values of health.html."""
    found = list(figures(measures))
    return {
        "figures": found,
        "wrong_total": sum(not each.good for each in found),
        "times": slowest_first(measures),
        "loop_here": measures.loop is not None,
        "failures": list(islice(_failures(reading), FAILURES)),
    }


def _failures(reading: Reading) -> Iterator[tuple[Summary, str]]:
    """Yield the newest Operations that failed, each with its trace id, `""` for none."""
    for row in islice(reading.rows(Operation.KIND).ordered(AGE, down=True), LOOKED_AT):
        if row.standing.state == NEEDS_YOU:
            document = reading.cache.document(row.ref)
            yield row, trace_id_of(document["status"].get("traceparent", "")) if document else ""
