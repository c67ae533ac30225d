"""Plans: the same passes over what-if ports, with every change and every verdict that is not Ready."""

from __future__ import annotations

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
from tenantry.runtime.planning.planned import PART_BYTES, Edited, Planned
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
    ports: PassPorts
    holding: Holding


@dataclass(frozen=True)
class Remarks:
    """The unfinished parts of an edit. problems: refusals, as sentences; kept: objects that left their source and stay for
    now; waiting: objects that could not be written yet, with the reason."""

    problems: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    waiting: tuple[Wait, ...] = ()


SETTLES_S = 0.1
"""Passes that are due later than this are no part of a plan: those that look at a list once it has settled are."""
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
) -> Notes:
    """Makes the edit on what-if ports and runs passes until nothing is left. Return the notes of it.

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
) -> Notes:
    notes = Notes()
    cycle = Cycle(kinds, what_if.cache, what_if.ports, now)
    runtime = Runtime(kinds, what_if.cache, cycle, time=time, now=now, workers=1, told=notes.told, timers=False)

    async def settle() -> None:
        await runtime.idle(within=SETTLES_S, hurry=True)

    what_if.cache.listen(notes.seen)
    runtime.start(covers)
    try:
        await settle()
        notes.clear()
        notes.remarks = await edit(what_if, settle)
        await settle()
    finally:
        await runtime.stop()
    return notes


class Notes:
    """Notes taken while the passes of a plan run. remarks: those of its edit."""

    def __init__(self) -> None:
        self.remarks = Remarks()
        self.changes: list[Seen] = []
        self.effects: list[tuple[Ref, Change]] = []
        self.verdicts: dict[Ref, Verdict] = {}
        self.concerns: set[Ref] = set()
        """The edited or affected objects."""
        self.size = 0
        """About how many bytes are read to put the plan together."""

    def clear(self) -> None:
        """Forgets what was noted so far."""
        for noted in (self.changes, self.effects, self.verdicts, self.concerns):
            noted.clear()
        self.size = 0

    def seen(self, change: Seen) -> None:
        if change.origin is None:
            # Without its document, which is many times as large as its JSON.
            self.changes.append(change._replace(document=None))
            self.concerns.add(change.ref)
            self.size += sum(len(entry.raw) for entry in (change.before, change.after) if entry is not None)

    def told(self, ref: Ref, ended: Ended) -> None:
        self.effects.extend((ref, change) for change in ended.changes)
        self.concerns.update({ref} if ended.changes else ())
        self.size += PART_BYTES * (1 + len(ended.changes))
        self.verdicts.pop(ref, None)
        if ended.verdict is not None and not isinstance(ended.verdict, Ready | Gone):
            self.verdicts[ref] = ended.verdict

    def planned(self) -> Planned:
        """Return the plan. Blocks: it reads each object that was edited, and compares it field by field."""
        edits = {change.ref: found for change in self.changes if (found := _edit_of(change)) is not None}
        waiting = {each.ref: Waiting("NotApplied", each.reason) for each in self.remarks.waiting}
        verdicts = sorted((self.verdicts | waiting).items(), key=lambda item: item[0])
        remarks = self.remarks
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
    if source_of(before) and not source_of(after):  # it stays, and belongs to no source
        fields = (*fields, *differing(source_of(before), None, "source", secret=False))
    return Edited("~", change.ref, fields) if fields else None
