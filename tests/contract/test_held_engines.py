"""Each host names the engines that it holds, and `check` those that no Environment has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.inventory import held_engines
from tenantry.adapters.kubernetes.engines.workload import POOL_LABEL, labels_of
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.cli.commands.platform.check import _orphans
from tenantry.hosts.console.protocol import Console
from tenantry.kinds.environment.orphaned import HeldEngine, without_environment
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref, parse_time
from tenantry.model.verdicts import Forbidden
from tests.unit.adapters.kubernetes.engines.fake_api import FakeApi

REF = EngineRef("tenant-acme", "dev", "id-1", "acme", "dev")
Held = Callable[[], Awaitable[Sequence[HeldEngine]]]


def on_a_cluster(_: Path) -> tuple[Held, str]:
    api = FakeApi()
    going, pool = "2026-11-27T10:00:00Z", {**labels_of(REF), POOL_LABEL: "main"}
    spaces: dict[str, dict[str, Any]] = {
        "env-id-1": {"labels": labels_of(REF)},
        "env-going": {"labels": labels_of(REF), "deletionTimestamp": going},
        "env-pool-1": {"labels": pool},
    }
    for name, metadata in spaces.items():
        api.put(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}})
    return lambda: held_engines(api.client), "namespace env-id-1"


def on_a_laptop(folder: Path) -> tuple[Held, str]:
    folders = EngineFolders(folder)
    made = parse_time("2026-11-27T10:00:00Z")
    folders.save([EngineRecord(EngineSpec(REF, "home", "Local"), Ref("Secret", REF.namespace, "dev-admin"), made)])

    async def held() -> Sequence[HeldEngine]:
        return folders.inventory()

    return held, str(folder / "engines" / "id-1")


HOSTS = {"a cluster": on_a_cluster, "a laptop": on_a_laptop}


class OneHost:
    """The part of a Console that is asked."""

    def __init__(self, held: Held) -> None:
        self._held = held

    async def orphans(self) -> Sequence[HeldEngine]:
        return without_environment(await self._held(), [])


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
async def test_an_engine_without_an_environment_is_named_with_its_place_and_the_way_out(
    host: Callable[[Path], tuple[Held, str]], tmp_path: Path
) -> None:
    held, place = host(tmp_path)
    assert list(await held()) == [HeldEngine("id-1", "tenant-acme", "dev", place)]
    (told,) = await _orphans(as_console(OneHost(held)))
    assert told.text.startswith(f"{place} holds the engine id-1 of tenant-acme/dev, which no Environment has")
    assert "spec.id: id-1" in told.text
    assert not told.wrong


async def test_without_orphans_and_without_the_right_one_line_says_so() -> None:
    async def none() -> Sequence[HeldEngine]:
        return ()

    async def refused() -> Sequence[HeldEngine]:
        raise Forbidden("namespaces is forbidden")

    assert [each.text for each in await _orphans(as_console(OneHost(none)))] == ["each has its Environment"]
    (told,) = await _orphans(as_console(OneHost(refused)))
    assert "may not list namespaces" in told.text


def as_console(host: OneHost) -> Console:
    return host  # type: ignore[return-value]
