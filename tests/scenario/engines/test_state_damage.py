"""Each file of a platform's state, harmed in each way, stopped or running: an error or all rows come; never Ready with fewer."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tenantry.adapters.store.sealing import DamagedObject, WrongKey
from tenantry.adapters.store.state_folder import StateUnreadable
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.facts import Password
from tenantry.model.verdicts import Halt
from tenantry.ports import EngineAdmin
from tests.campaigns.tried import Tried
from tests.crash.campaign import copy_of
from tests.support.planned_platform import DEV, apply, base, dev_endpoint, edited, platform_on, write

__all__ = ["base"]


class States(NamedTuple):
    """Three states of one declaration: the present one, itself some writes ago, and another platform's."""

    now: Path
    older: Path
    other: Path


@pytest.fixture(scope="module")
def states(base: Path, tmp_path_factory: pytest.TempPathFactory) -> States:
    return asyncio.run(made(base, tmp_path_factory.mktemp("states")))


async def made(base: Path, folder: Path) -> States:
    older, now, other = copy_of(base, folder / "older"), copy_of(base, folder / "now"), folder / "other"
    async with platform_on(now) as platform:
        await (await engine(platform)).add_identity("later", Password(clear="a long password"))
        await platform.state.store.create(
            {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "later"}, "spec": {}}
        )
        await platform.converged()
    async with platform_on(other) as platform:
        await apply(platform, write(folder / "source", edited({})))
    return States(now, older, other)


async def engine(platform: Platform) -> EngineAdmin:
    return platform.ports.engines.at(await dev_endpoint(platform))


FILES = ("state.db", "secret.key", "engines/engines.db", "engines/*/engine.db", "keys/*.jwk")


def another(file: Path, source: Path, pattern: str) -> None:
    found, *_ = sorted(source.glob(pattern))
    shutil.copyfile(found, file)


HARMS: dict[str, Callable[[Path, States, str], object]] = {
    "missing": lambda file, states, pattern: file.unlink(),
    "empty": lambda file, states, pattern: os.truncate(file, 0),
    "cut in half": lambda file, states, pattern: os.truncate(file, file.stat().st_size // 2),
    "overwritten": lambda file, states, pattern: file.write_bytes(bytes(range(256)) * 80),
    "an older copy": lambda file, states, pattern: another(file, states.older, pattern),
    "of another platform": lambda file, states, pattern: another(file, states.other, pattern),
}


def inflict(harm: str, state: Path, states: States, pattern: str) -> None:
    for file in sorted(state.glob(pattern)):
        HARMS[harm](file, states, pattern)


RESTORED = {("engines/*/engine.db", "an older copy"), ("engines/*/engine.db", "of another platform")}
"""A whole database in the place of an engine's is how a person restores a copy; the platform cannot know better."""


def rows() -> Iterator[tuple[str, str]]:
    yield from ((pattern, harm) for pattern in FILES for harm in HARMS if (pattern, harm) not in RESTORED)


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
@pytest.mark.parametrize(("pattern", "harm"), list(rows()))
async def test_no_harm_ends_in_ready_with_fewer_rows(
    states: States, tmp_path: Path, tried: Tried, pattern: str, harm: str, running: bool
) -> None:
    state = copy_of(states.now, tmp_path / "state")
    if running:
        async with platform_on(state) as platform:
            inflict(harm, state, states, pattern)
            with suppress(Halt):  # requests may be refused until somebody stops it
                await has_all_rows_or_misses_data(platform)
    else:
        inflict(harm, state, states, pattern)
    harmed = contents(state)
    try:
        async with platform_on(state) as platform:
            await has_all_rows_or_misses_data(platform)
    except (StateUnreadable, WrongKey, DamagedObject) as refused:
        assert "put" in str(refused), "the way out"
        assert contents(state) == harmed, "nothing is written over it"
    tried()


@pytest.mark.parametrize("kind", ["Secret", "Tenant"])
async def test_a_state_with_a_damaged_object_is_refused_and_leaves_no_mark(states: States, tmp_path: Path, kind: str) -> None:
    state = copy_of(states.now, tmp_path / "state")
    with closing(sqlite3.connect(state / "state.db")) as connection, connection:
        if kind == "Secret":
            (body,) = connection.execute("SELECT body FROM objects WHERE kind = ?", (kind,)).fetchone()
            damaged = body.replace(b'"password":"', b'"password":"AAAA')
        else:
            damaged = b'{"kind": "Tenant", '
        connection.execute("UPDATE objects SET body = ? WHERE kind = ?", (damaged, kind))
        connection.execute("UPDATE meta SET value = value + 100 WHERE name = 'version'")
    harmed = contents(state)
    with pytest.raises(Halt, match=r"put the (state|file) back"):
        async with platform_on(state):
            pytest.fail("it started")
    assert contents(state) == harmed


async def has_all_rows_or_misses_data(platform: Platform) -> None:
    platform.runtime.look(DEV)
    await platform.runtime.idle()
    dev = await platform.state.writing.get(DEV)  # once: the next look may find another platform's, whose file lies there now
    conditions = dev["status"]["conditions"]
    reason = next(each["reason"] for each in conditions if each["type"] == "Ready")
    if reason != "Succeeded":
        assert reason == "DataMissing", conditions
        return
    endpoint = endpoint_of(Environment.model_validate(dev))
    assert endpoint is not None
    admin = platform.ports.engines.at(endpoint)
    assert await admin.apps_with_rows() == {"crm"}
    assert "later" in {one.username for one in await admin.identities()}


def contents(state: Path) -> dict[str, bytes]:
    """The files that hold the truth. Not state.db: who opens it moves its log into it."""
    return {str(file): file.read_bytes() for pattern in FILES[1:] for file in state.glob(pattern)}
