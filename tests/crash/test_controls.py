"""Each control of the core is switched off once, and the campaign's check then fails: what cannot fail proves nothing.

A control is switched off in the test, by a patch; no setting of the product does it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tenantry.engine.service import Engine
from tenantry.hosts import standalone, supervision
from tenantry.model.resource import Resource
from tenantry.model.verdicts import Halt
from tenantry.runtime.reconcile.cycle import _Pass
from tenantry.runtime.reconcile.loop import Runtime
from tests.campaigns.tried import Tried
from tests.crash import story, test_linearizable, test_watches, watched_platform
from tests.crash.campaign import Doom, copy_of, run
from tests.crash.faulty_feed import FaultyFeed, WatchFault
from tests.crash.linearizable import first_contradiction
from tests.crash.mortal_installs import CHANGES, install, prepared
from tests.crash.swapping_clients import NO_PRECONDITION
from tests.support.store_faults import Fault
from tests.support.watched_story import tell

pytestmark = pytest.mark.slow
SOON_S = 4.0


async def test_r1_without_the_finalizer_engines_are_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resource, "FINALIZED", False)
    monkeypatch.setattr(watched_platform, "SETTLES_S", SOON_S)
    with pytest.raises((AssertionError, TimeoutError)):
        await tell(tmp_path)


async def test_r2_without_another_try_it_does_not_converge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "before").mkdir()
    source = story.write(tmp_path / "source", "create")
    reference = Doom()
    end = await run(copy_of(tmp_path / "before", tmp_path / "reference"), source, reference)
    monkeypatch.setattr(Runtime, "_again", lambda self, key, ended: None)
    differ = 0
    for at in range(1, reference.writes, reference.writes // 12):
        try:
            struck = await run(copy_of(tmp_path / "before", tmp_path / "state"), source, Doom(at, Fault.TRANSIENT))
        except Halt:
            struck = {}  # so little came about that an engine cannot be asked
        differ += struck != end
    assert differ


async def test_r3_without_the_read_before_the_first_effect_an_engine_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Tried
) -> None:
    async def trusting(self: Any) -> None:
        return None

    monkeypatch.setattr(_Pass, "_confirm", trusting)
    # Not every older state misleads: about one in four does.
    monkeypatch.setattr(test_watches, "EVERY", 2)
    # The engine that was made again is a fault by itself; what is asked of it may fail first.
    with pytest.raises((AssertionError, Halt)):
        await test_watches.test_a_restart_that_sees_an_older_state_makes_no_engine_again(tmp_path, tried)


async def test_r4_without_a_new_list_a_watch_that_expired_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NeverError(Exception):
        """Raised by nothing."""

    async def unsupervised(self: object, work: Any, name: str) -> None:
        with suppress(Exception):
            await work()

    monkeypatch.setattr(standalone, "Expired", NeverError)
    # A supervisor starts the watch again with a new list: the control behind this one.
    monkeypatch.setattr(supervision.Supervisor, "_keep", unsupervised)
    monkeypatch.setattr(watched_platform, "SETTLES_S", SOON_S)
    with pytest.raises(TimeoutError):
        await tell(tmp_path, lambda store: FaultyFeed(store, 1, WatchFault.EXPIRED, only="Tenant"))


async def test_r4_without_following_again_a_watch_that_was_cut_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(feed: Any, cache: Any, kind: str, version: str) -> None:
        async for change in feed.watch(kind, version):
            standalone._take(cache, change.type, change.document)

    monkeypatch.setattr(standalone, "follow", once)
    monkeypatch.setattr(watched_platform, "SETTLES_S", SOON_S)
    with pytest.raises(TimeoutError):
        await tell(tmp_path, lambda store: FaultyFeed(store, 1, WatchFault.CUT, only="Tenant"))


async def test_r8_without_one_transaction_a_migration_stops_in_between(tmp_path: Path) -> None:
    before, after = CHANGES["an upgrade"]
    template = await prepared(tmp_path, None, before)
    old, new = template.portrait(), await install(template.copy(tmp_path / "reference"), after)

    class Died(BaseException):
        """Stands for the kill."""

    passed = 0

    def commit(connection: Any, *_: Any) -> None:
        nonlocal passed
        passed += 1
        connection.connection.dbapi_connection.commit()
        if passed == at:
            raise Died

    found = []
    for at in (20, 40, 60):
        passed, state = 0, template.copy(tmp_path / f"{at}")
        engine = await Engine.open(state.data)
        event.listen(sa.Engine, "after_cursor_execute", commit)
        try:
            with pytest.raises(BaseException):  # noqa: B017 - how it surfaces is not the point
                await engine.install("crm", after, allow_drops=True)
        finally:
            event.remove(sa.Engine, "after_cursor_execute", commit)
        found.append(state.portrait())
    assert any(each not in (old, new) for each in found)


def test_r11_without_the_precondition_a_write_is_lost(tmp_path: Path) -> None:
    found = test_linearizable.histories(tmp_path, 1_000, 2, NO_PRECONDITION)
    assert [key for key, history in found.items() if first_contradiction(history) is not None]
