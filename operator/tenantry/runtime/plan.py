"""What would happen: the same passes over what-if ports, with every change and every verdict that is not Ready."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenantry.model.changes import Change, InstallApp
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Gone, Ready, Verdict
from tenantry.ports import Kind
from tenantry.runtime.cache import Cache, Seen
from tenantry.runtime.cycle import Cycle, Ended, Seat
from tenantry.runtime.pruning import Kept
from tenantry.runtime.runtime import Runtime
from tenantry.runtime.sync import Lists
from tenantry.runtime.writing import WritingStore


@dataclass(frozen=True)
class Edited:
    """A declared object that would be created (`+`), changed (`~`) or deleted (`-`)."""

    sign: str
    ref: Ref
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = f" ({', '.join(self.fields)})" if self.fields else ""
        return f"{self.sign} {self.ref}{fields}"


@dataclass(frozen=True)
class Planned:
    """What an edit would come to. effects: in order, each with its object; verdicts: how objects that are not Ready would end;
    problems: what it could not do, as sentences; kept: what left its source and would stay."""

    edits: tuple[Edited, ...]
    effects: tuple[tuple[Ref, Change], ...]
    verdicts: tuple[tuple[Ref, Verdict], ...]
    problems: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def empty(self) -> bool:
        """Would nothing happen?"""
        return not self.edits and not self.effects

    @property
    def loses_data(self) -> bool:
        return any(isinstance(change, InstallApp) and change.drops for _, change in self.effects)

    def to_json(self) -> dict[str, Any]:
        """`changes`, `verdicts` and `digest`, as REST and `-o json` show them."""
        changes = [str(edit) for edit in self.edits] + [_effect_line(ref, change) for ref, change in self.effects]
        verdicts = [{"object": str(ref), "reason": verdict.reason, "message": verdict.message} for ref, verdict in self.verdicts]
        body = {"changes": changes, "verdicts": verdicts}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        return body | {"digest": digest}


@dataclass(frozen=True)
class WhatIf:
    """What-if ports, composed by bootstrap: `cache` and `store` are copies that nobody else sees."""

    cache: Cache
    store: WritingStore
    lists: Lists
    seat: Seat


@dataclass(frozen=True)
class Remarks:
    """What an edit did not do. problems: refusals, as sentences; kept: what left its source and stays for now."""

    problems: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()


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
) -> Planned:
    """Makes the edit on what-if ports and runs passes until nothing is left."""
    notes = _Notes()
    cycle = Cycle(kinds, what_if.cache, what_if.seat, now)
    runtime = Runtime(kinds, what_if.cache, cycle, time=time, now=now, workers=1, told=notes.told)

    async def settle() -> None:
        await runtime.idle(within=0.1)

    what_if.cache.listen(notes.seen)
    runtime.start()
    try:
        await settle()
        notes.effects.clear()
        remarks = await edit(what_if, settle)
        await settle()
    finally:
        await runtime.stop()
    return notes.planned(remarks)


class _Notes:
    """What is seen and told while the passes run."""

    def __init__(self) -> None:
        self.edits: dict[Ref, Edited] = {}
        self.effects: list[tuple[Ref, Change]] = []
        self.verdicts: dict[Ref, Verdict] = {}

    def seen(self, change: Seen) -> None:
        found = _edit_of(change)
        if found is not None and change.origin is None:
            self.edits[change.ref] = found

    def told(self, ref: Ref, ended: Ended) -> None:
        self.effects.extend((ref, change) for change in ended.changes)
        self.verdicts.pop(ref, None)
        if ended.verdict is not None and not isinstance(ended.verdict, Ready | Gone):
            self.verdicts[ref] = ended.verdict

    def planned(self, remarks: Remarks) -> Planned:
        verdicts = sorted(self.verdicts.items(), key=lambda item: item[0])
        return Planned(tuple(self.edits.values()), tuple(self.effects), tuple(verdicts), remarks.problems, remarks.kept)


def _edit_of(change: Seen) -> Edited | None:
    if change.after is None:
        return Edited("-", change.ref)
    after = change.after.document()
    if change.before is None:
        return Edited("+", change.ref)
    before = change.before.document()
    if after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        return Edited("-", change.ref)
    # Of a Secret's data the names alone: no value gets into a plan.
    fields = sorted(found for part in ("spec", "data") for found in _differing(before.get(part, {}), after.get(part, {}), part))
    return Edited("~", change.ref, tuple(fields)) if fields else None


def _differing(before: Any, after: Any, path: str) -> set[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            found
            for key in before.keys() | after.keys()
            for found in _differing(before.get(key), after.get(key), f"{path}.{key}")
        }
    return set() if before == after else {path}


def _effect_line(ref: Ref, change: Change) -> str:
    namespace = f"{ref.namespace}/" if ref.namespace else ""
    return f"  {namespace}{ref.name}: {change}"
