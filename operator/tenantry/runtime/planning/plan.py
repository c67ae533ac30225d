"""Plans: the same passes over what-if ports, with every change and every verdict that is not Ready."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenantry.model.changes import Change
from tenantry.model.declared import PARTS, for_people
from tenantry.model.resource import Ref, source_of
from tenantry.model.verdicts import Gone, Ready, Verdict, Waiting
from tenantry.ports import Kind
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.differences import differing
from tenantry.runtime.planning.planned import Edited, Planned
from tenantry.runtime.reconcile.cycle import Cycle, Ended, PassPorts
from tenantry.runtime.reconcile.loop import Runtime
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.holding import Holding
from tenantry.runtime.sources.pruning import Kept
from tenantry.runtime.sources.sync import Lists, Wait
from tenantry.tracing.work import OFF, using


@dataclass(frozen=True)
class WhatIf:
    """What-if ports, composed by bootstrap: `cache` and `store` are copies that nobody else sees."""

    cache: Cache
    store: WritingStore
    lists: Lists
    seat: PassPorts
    holding: Holding


@dataclass(frozen=True)
class Remarks:
    """The unfinished parts of an edit. problems: refusals, as sentences; kept: objects that left their source and stay for
    now; waiting: objects that could not be written yet, with the reason."""

    problems: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    waiting: tuple[Wait, ...] = ()


Settle = Callable[[], Awaitable[None]]
Edit = Callable[[WhatIf, Settle], Awaitable[Remarks]]
"""Makes an edit on a what-if store. Settle waits for the passes that it woke."""


async def plan(
    kinds: Mapping[str, Kind[Any, Any]],
    what_if: WhatIf,
    edit: Edit,
    *,
    time: Callable[[], float],
    now: Callable[[], datetime],
    covers: Callable[[Ref], bool] = lambda key: True,
) -> Planned:
    """Makes the edit on what-if ports and runs passes until nothing is left.

    Only what the edit changes, and what that wakes, is in the plan. So objects come to rest before, and no pass runs by a timer:
    each that runs after the edit runs because of it. covers: the objects that the edit may wake. Nothing of it is traced.
    """
    with using(OFF):
        return await _planned(kinds, what_if, edit, time, now, covers)


async def rehearsed(what_if: WhatIf, edit: Edit) -> tuple[tuple[Seen, ...], Remarks]:
    """Make the edit on what-if ports without any pass. Return what it changed, and its remarks."""
    seen: list[Seen] = []
    what_if.cache.listen(seen.append)

    async def nothing() -> None:
        """Nobody works on what the edit wakes."""

    with using(OFF):
        remarks = await edit(what_if, nothing)
    return tuple(seen), remarks


async def _planned(
    kinds: Mapping[str, Kind[Any, Any]],
    what_if: WhatIf,
    edit: Edit,
    time: Callable[[], float],
    now: Callable[[], datetime],
    covers: Callable[[Ref], bool],
) -> Planned:
    notes = _Notes()
    cycle = Cycle(kinds, what_if.cache, what_if.seat, now)
    runtime = Runtime(kinds, what_if.cache, cycle, time=time, now=now, workers=1, told=notes.told, timers=False)

    async def settle() -> None:
        await runtime.idle(within=0.1)

    what_if.cache.listen(notes.seen)
    runtime.start(covers)
    try:
        await settle()
        notes.clear()
        remarks = await edit(what_if, settle)
        await settle()
    finally:
        await runtime.stop()
    # In a thread: each edit is compared with what was there, field by field.
    return await asyncio.to_thread(notes.planned, remarks)


class _Notes:
    """Notes taken while the passes run."""

    def __init__(self) -> None:
        self.changes: list[Seen] = []
        self.effects: list[tuple[Ref, Change]] = []
        self.verdicts: dict[Ref, Verdict] = {}

    def clear(self) -> None:
        """Forgets what was noted so far."""
        for noted in (self.changes, self.effects, self.verdicts):
            noted.clear()

    def seen(self, change: Seen) -> None:
        if change.origin is None:
            # Without its document, which is many times as large as its JSON.
            self.changes.append(change._replace(document=None))

    def told(self, ref: Ref, ended: Ended) -> None:
        self.effects.extend((ref, change) for change in ended.changes)
        self.verdicts.pop(ref, None)
        if ended.verdict is not None and not isinstance(ended.verdict, Ready | Gone):
            self.verdicts[ref] = ended.verdict

    def planned(self, remarks: Remarks) -> Planned:
        """Return the plan. Blocks: it reads each object that was edited."""
        edits = {change.ref: found for change in self.changes if (found := _edit_of(change)) is not None}
        waiting = {each.ref: Waiting("NotApplied", each.reason) for each in remarks.waiting}
        verdicts = sorted((self.verdicts | waiting).items(), key=lambda item: item[0])
        return Planned(tuple(edits.values()), tuple(self.effects), tuple(verdicts), remarks.problems, remarks.kept)


def _edit_of(change: Seen) -> Edited | None:
    if change.after is None:
        return Edited("-", change.ref)
    after = change.after.document()
    if change.before is None:
        return Edited("+", change.ref, content=json.dumps(after.get("spec", {}), sort_keys=True))
    before = change.before.document()
    if after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        return Edited("-", change.ref)
    secret = change.ref.kind == "Secret"
    parts = ("spec", "data")
    fields = tuple(each for part in parts for each in differing(before.get(part, {}), after.get(part, {}), part, secret))
    for part in PARTS:
        fields = (
            *fields,
            *differing(for_people(before["metadata"], part), for_people(after["metadata"], part), f"metadata.{part}", secret),
        )
    if source_of(before) and not source_of(after):  # it stays, and is nobody's
        fields = (*fields, *differing(source_of(before), None, "source", secret=False))
    return Edited("~", change.ref, fields) if fields else None
