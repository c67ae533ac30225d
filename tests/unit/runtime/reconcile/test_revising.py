"""A change is made on what is stored now, however often others write meanwhile; up to a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Conflict
from tenantry.ports import Store
from tenantry.runtime.reconcile.revising import ATTEMPTS, revise

DEV = Ref("Environment", "tenant-acme", "dev")


class Contended:
    """A store of one document, whose number others raise before each of the next `times` writes."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.stored: Mapping[str, Any] = {
            "kind": "Environment",
            "metadata": {"namespace": "tenant-acme", "name": "dev", "uid": "u", "resourceVersion": "1"},
            "number": 0,
            "ours": 0,
        }

    async def get(self, ref: Ref) -> Document:
        return self.stored

    async def replace(self, document: Document, version: str) -> Document:
        if self.times:
            self.times -= 1
            self._write({**self.stored, "number": self.stored["number"] + 1})
        if version != self.stored["metadata"]["resourceVersion"]:
            raise Conflict("written meanwhile")
        self._write(document)
        return self.stored

    def _write(self, document: Document) -> None:
        metadata = document["metadata"]
        self.stored = {**document, "metadata": {**metadata, "resourceVersion": str(int(metadata["resourceVersion"]) + 1)}}


def ours(document: Document) -> Document:
    return {**document, "ours": document["ours"] + 1}


@pytest.mark.parametrize("times", [0, 1, ATTEMPTS - 1])
async def test_it_is_made_once_on_what_others_wrote(times: int) -> None:
    store = Contended(times)
    before, after = await revise(cast(Store, store), DEV, ours)
    assert (before["number"], before["ours"]) == (times, 0)
    assert (after["number"], after["ours"]) == (times, 1)
    assert after == store.stored


async def test_it_ends_when_others_never_stop() -> None:
    store = Contended(ATTEMPTS)
    with pytest.raises(Conflict, match="Environment dev keeps being changed by others; try again"):
        await revise(cast(Store, store), DEV, ours)
    assert store.stored["ours"] == 0


async def test_what_changes_nothing_is_not_written() -> None:
    store = Contended(1)
    before, after = await revise(cast(Store, store), DEV, lambda document: document)
    assert before is after
    assert store.times == 1
