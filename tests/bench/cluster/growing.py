"""H1: operator and facade beside a platform at rest, at three sizes: a start, its writes, edits in it, and memory.

A third as many Tenants stand beside the Environments. Each Environment has its Secret, its Operation and the nine objects of a
played engine, and three children with their Operations: an App, an Identity and an IdentityProvider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from tenantry.model.resource import Ref
from tests.bench.cluster.children.answering import engines
from tests.bench.cluster.children.documents import EACH, answers
from tests.bench.cluster.editing import P5_LIMIT_S, until_observed
from tests.bench.cluster.place import Place, client_of, memory_of, place, quiet
from tests.bench.cluster.standing import RESYNC_S, Operators, fill, no_writes
from tests.bench.row import Row, Scale, told

SIZES = (1000, 3000, 10_000)
TENANTS = 1 / 3
GROWTH = 1.5
"""The most that an Environment of a larger platform may cost, as a multiple of its cost in the smallest."""
RESTART_S = 60.0
EDITS = 10
OPERATOR, API = 600 << 20, 400 << 20
KEEPS_ALL = {"TENANTRY_OPERATIONS__TOTAL": "1000000"}
"""By default 5,000 Operations are kept, so that a platform at rest has far fewer than it has objects."""


@dataclass(frozen=True)
class Grown:
    """A platform of so many Environments. restart: seconds until idle; edit: the longest of some that were made in one, seconds
    until Ready; writes: of a restart and of a resync; memory in bytes."""

    environments: int
    restart: float
    edit: float
    writes: tuple[int, int]
    operator: int
    api: int


def measure(scale: Scale) -> Sequence[Row]:
    """Against the bars at the largest size, and against the smallest, for each Environment."""
    first, *larger = [_at_rest(scale, scale.of(size)) for size in SIZES]
    return [*(row for each in larger for row in growth(each, first)), *bars(larger[-1])]


def _at_rest(scale: Scale, environments: int) -> Grown:
    with engines(answers()) as played, place(scale.folder / f"h1-{environments}") as at:
        at.platform.proxy = played.proxy
        at.platform.settings = KEEPS_ALL
        tenants = round(environments * TENANTS) or 1
        asyncio.run(fill(at, tenants, environments, with_children=True))
        with at.platform.operator() as operator:  # its first start makes keys, users and the Region's status
            asyncio.run(quiet(operator.process.pid))
        operators = Operators(at)
        took = operators.restart()
        writes = operators.writes, operators.resync(max(RESYNC_S, environments // 50))
        grown = Grown(environments, took.wall, _longest_edit(at, tenants), writes, operators.memory, _memory_of_api(at))
        played.check()
        return grown


def _longest_edit(at: Place, tenants: int) -> float:
    """Of Environments of different tenants, one after another, from the moment at which an operator leads."""

    async def edited() -> float:
        async with client_of(at.admin) as client:
            refs = [Ref("Environment", f"tenant-t{number}", "dev") for number in range(0, tenants, ceil(tenants / EDITS))]
            return max([await until_observed(client, ref, "Edited in a start") for ref in refs])

    with at.platform.leader():
        return asyncio.run(edited())


def _memory_of_api(at: Place) -> int:
    with at.platform.api():
        asyncio.run(quiet(at.platform.pids["api"]))
        return memory_of(at.platform.pids["api"])


def growth(large: Grown, small: Grown) -> Iterator[Row]:
    """Rows of one larger size, each with the cost of an Environment against that in the smallest."""
    fewer = large.environments / small.environments
    of = f"{small.environments:,} of them, for each"
    for work, ours, theirs, say in (
        ("restart until idle", large.restart, small.restart, told),
        ("memory of the operator", large.operator, small.operator, _mib),
        ("memory of the api", large.api, small.api, _mib),
    ):
        ratio = ours / theirs / fewer
        work = f"{large.environments:,} Environments with {EACH} children each at rest: {work}"
        yield Row("H1", work, of, ratio, (ratio, ratio), "lower", GROWTH, (say(ours), say(theirs)))


def bars(largest: Grown) -> Iterator[Row]:
    held = f"{largest.environments:,} Environments and {EACH * largest.environments:,} children"
    for work, figure, bar, say in (
        (f"restart with {held} until idle", largest.restart, RESTART_S, told),
        (f"the longest of {EDITS} edits in a restart with {held}, until Ready", largest.edit, P5_LIMIT_S, told),
        (f"memory of the operator with {held}", largest.operator, OPERATOR, _mib),
        (f"memory of the api with {held}", largest.api, API, _mib),
    ):
        ratio = figure / bar
        yield Row("H1", work, say(bar), ratio, (ratio, ratio), "lower", 1.0, (say(figure), say(bar)))
    restart, resync = largest.writes
    yield no_writes("H1", f"writes of a restart with {held}", restart)
    yield no_writes("H1", f"writes of a resync with {held}", resync)


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
