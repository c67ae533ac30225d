"""Two replicas of a pool on a server: each serves all engines, and knows what the operator said to the other."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tenantry.adapters.local.backups import KEEP
from tenantry.adapters.pools.archives import listing, parse_listing, receive, send
from tenantry.adapters.pools.shared.backups import SharedPlace
from tenantry.engine.sealing import OWN_KEYS
from tenantry.model.facts import IdentityProviderSettings, Password, Trust
from tenantry.model.verdicts import Halt
from tenantry.packages.build import build
from tenantry.rest.auth.failures import FREE
from tests.scenario.data_world import DATA, MANIFEST, PASSWORD
from tests.support.pool_servers import PoolServerKit
from tests.support.pools import COMING, DECLARED, HOST, OTHER, OTHER_SPEC, POOL, REF, SPEC, PoolKit, pool_of, sent

pytestmark = pytest.mark.slow
OTHER_HOST = "dev--globex.apps.example.com"


class Replicas(NamedTuple):
    """Two of one pool, and the databases that the operator makes."""

    one: PoolKit
    two: PoolKit
    server: PoolServerKit
    folder: Path

    async def deployed(self) -> None:
        """By the first."""
        await self.server.databases.ensure(POOL, REF)
        await self.one.pools.deploy(SPEC, await sent(PASSWORD))

    async def published(self, *, version: str = "1.0.0") -> None:
        """The app crm, by the first, with the editor ed."""
        source, package = self.folder / f"source-{version}", self.folder / f"crm-{version}.tapp"
        (source / "content").mkdir(parents=True)
        (source / "content" / "index.html").write_text(f"page of {version}")
        (source / "app.yaml").write_text(MANIFEST.replace("version: 1.0.0", f"version: {version}"))
        build(source, package)
        await self.one.admin().publish(package)


@pytest.fixture
async def replicas(pool_server: PoolServerKit, tmp_path: Path) -> AsyncIterator[Replicas]:
    async with (
        pool_of(tmp_path / "one", server=pool_server.url) as one,
        pool_of(tmp_path / "two", server=pool_server.url, keys=one.keys) as two,
    ):
        yield Replicas(one, two, pool_server, tmp_path)


async def token(kit: PoolKit, username: str = "admin", password: str = PASSWORD) -> str:
    form = {"username": username, "password": password}
    answer = await kit.people.post("/api/v1/auth/token", data=form, headers={"Host": HOST})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def asked(kit: PoolKit, path: str, bearer: str) -> httpx.Response:
    return await kit.people.get(path, headers={"Host": HOST, "Authorization": f"Bearer {bearer}"})


async def test_what_one_was_told_the_other_serves_at_once(replicas: Replicas) -> None:
    assert await replicas.two.signs_in(PASSWORD) == 404
    await replicas.deployed()
    facts = await replicas.two.pools.engine(POOL, REF)
    assert facts is not None and (facts.status, facts.spec) == ("RUNNING", SPEC)
    assert await replicas.two.signs_in(PASSWORD) == 200


async def test_tokens_and_secrets_of_one_hold_at_the_other(replicas: Replicas) -> None:
    await replicas.deployed()
    bearer = await token(replicas.one)
    await replicas.two.pools.engine(POOL, REF)
    assert (await asked(replicas.two, "/api/v1/auth/me", bearer)).status_code == 200
    provider = IdentityProviderSettings("Sign-in", "https://issuer.example", "client")
    await replicas.one.admin().add_identity_provider(provider, Password(clear="secret"))
    (seen,) = await replicas.two.admin().identity_providers()
    (made,) = await replicas.one.admin().identity_providers()
    assert seen == made
    keys = [
        {name: (kit.folder / "data" / "engines" / REF.id / name).read_bytes() for name in OWN_KEYS}
        for kit in (replicas.one, replicas.two)
    ]
    assert keys[0] == keys[1]


async def test_both_open_a_new_engine_at_once_with_the_same_keys(replicas: Replicas) -> None:
    await replicas.server.databases.ensure(POOL, REF)
    facts = await sent(PASSWORD)
    await asyncio.gather(replicas.one.pools.deploy(SPEC, facts), replicas.two.pools.deploy(SPEC, facts))
    tokens = await asyncio.gather(token(replicas.one), token(replicas.two))
    for kit in (replicas.one, replicas.two):
        assert [(await asked(kit, "/api/v1/auth/me", bearer)).status_code for bearer in tokens] == [200, 200]


async def test_an_app_that_one_installed_is_served_by_the_other(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.published()
    one, two = replicas.one, replicas.two
    await one.admin().add_identity("ed", Password(clear=PASSWORD), [("crm", "editor")])
    await two.pools.engine(POOL, REF)
    bearer = await token(two, "ed")
    made = await two.people.post(
        f"{DATA}/accounts", json={"name": "Ada"}, headers={"Host": HOST, "Authorization": f"Bearer {bearer}"}
    )
    assert made.status_code == 201, made.text
    assert [row["name"] for row in (await asked(one, f"{DATA}/accounts", bearer)).json()] == ["Ada"]
    assert (await asked(two, "/apps/crm/index.html", bearer)).text == "page of 1.0.0"
    await replicas.published(version="2.0.0")
    assert (await asked(two, "/apps/crm/index.html", bearer)).text == "page of 2.0.0"
    assert [app.version for app in await two.admin().apps()] == ["2.0.0"]
    assert [row["name"] for row in (await asked(two, f"{DATA}/accounts", bearer)).json()] == ["Ada"]


async def test_an_engine_that_one_removed_is_gone_from_the_other_with_its_files(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.published()
    await replicas.two.admin().identities()
    await replicas.server.databases.drop(POOL, REF)
    await replicas.one.pools.undeploy(POOL, REF)
    assert await replicas.two.pools.engine(POOL, REF) is None
    assert await replicas.two.signs_in(PASSWORD) == 404
    for kit in (replicas.one, replicas.two):
        assert not (kit.folder / "data" / "engines" / REF.id).exists()
    left = replicas.server.rows(
        "SELECT count(*) FROM keys WHERE engine <> ''", "SELECT count(*) FROM packages", "SELECT count(*) FROM blobs"
    )
    assert left == [0, 0, 0]


async def test_a_package_that_two_engines_have_is_kept_once_and_until_both_are_gone(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.published()
    await replicas.server.databases.ensure(POOL, OTHER)
    await replicas.two.pools.deploy(OTHER_SPEC, await sent(PASSWORD, url=""))
    await replicas.two.admin(OTHER).publish(replicas.folder / "crm-1.0.0.tapp")
    parts = "SELECT count(DISTINCT name) FROM blobs"
    assert replicas.server.rows(parts, "SELECT count(*) FROM packages") == [1, 2]
    await replicas.one.pools.undeploy(POOL, REF)
    assert replicas.server.rows(parts, "SELECT count(*) FROM packages") == [1, 1]
    await replicas.two.pools.undeploy(POOL, OTHER)
    assert replicas.server.rows(parts, "SELECT count(*) FROM packages") == [0, 0]


async def test_another_password_and_a_host_that_is_taken_reach_both(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.two.admin().identities()
    await replicas.one.pools.deploy(SPEC, await sent("battery staple"))
    await replicas.two.pools.engine(POOL, REF)
    assert (await replicas.two.signs_in("battery staple"), await replicas.two.signs_in(PASSWORD)) == (200, 401)
    await replicas.one.pools.withdraw(POOL, REF)
    await replicas.two.pools.engine(POOL, REF)
    assert await replicas.two.signs_in("battery staple") == 404


async def test_wrong_passwords_are_counted_by_all_and_by_a_replica_that_starts_then(replicas: Replicas, tmp_path: Path) -> None:
    await replicas.deployed()
    await replicas.server.databases.ensure(POOL, OTHER)
    await replicas.two.pools.deploy(OTHER_SPEC, await sent(PASSWORD, url=f"https://{OTHER_HOST}"))
    kits = [replicas.one, replicas.two]
    assert [await kits[turn % 2].signs_in(PASSWORD) for turn in range(2)] == [200, 200]
    assert [await kits[turn % 2].signs_in(f"wrong {turn}") for turn in range(FREE)] == [401] * FREE
    replicas.server.run("UPDATE guesses SET until = until + 1000 WHERE failures >= 5 AND until > last")
    async with pool_of(tmp_path / "three", server=replicas.server.url, keys=replicas.one.keys) as three:
        for kit in (*kits, three):
            assert await kit.signs_in(PASSWORD) == 429
            for path in ("/api/v1/admin/apps", f"{DATA}/accounts"):
                held = await kit.people.get(path, headers={"Host": HOST}, auth=("admin", PASSWORD))
                assert held.status_code == 429, path
            assert await kit.signs_in(PASSWORD, host=OTHER_HOST) == 200  # neighbours notice nothing
    assert replicas.server.rows("SELECT count(*) FROM guesses") == [2]


async def test_a_pool_that_one_closes_takes_no_engine_at_the_other(replicas: Replicas) -> None:
    assert await replicas.one.pools.close(POOL) is False
    await replicas.server.databases.ensure(POOL, REF)
    with pytest.raises(Halt) as refused:
        await replicas.two.pools.deploy(SPEC, await sent(PASSWORD))
    assert refused.value.verdict.reason == "PoolClosing"


async def test_a_pool_with_an_engine_of_the_other_does_not_close(replicas: Replicas) -> None:
    await replicas.deployed()
    with pytest.raises(Halt) as refused:
        await replicas.two.pools.close(POOL)
    assert refused.value.verdict.reason == "PoolInUse"


async def test_an_archive_of_one_is_listed_and_restored_by_the_other(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.published()
    await replicas.one.admin().add_identity("alice", Password(clear="battery staple"))
    await replicas.two.pools.snapshot(POOL, REF, [DECLARED])
    await replicas.server.databases.drop(POOL, REF)
    await replicas.one.pools.undeploy(POOL, REF)
    one, two = (SharedPlace(replicas.server.url, POOL, kit.folder / "data", KEEP) for kit in (replicas.one, replicas.two))
    (key, (facts,)), other = parse_listing(listing(one)), parse_listing(listing(two))
    assert (key, (facts,)) == other and facts.id == REF.id and key
    out = io.BytesIO()
    send(one, REF.id, out)
    await replicas.server.databases.ensure(POOL, REF)
    await replicas.one.pools.deploy(COMING, await sent(PASSWORD))
    receive(two, io.BytesIO(out.getvalue()), REF.id, replicas.two.folder / "scratch", Trust())
    await replicas.one.pools.deploy(COMING, await sent(PASSWORD))
    for kit in (replicas.one, replicas.two):
        assert sorted(each.username for each in await kit.admin().identities()) == ["admin", "alice"]
        assert [app.version for app in await kit.admin().apps()] == ["1.0.0"]


async def test_a_pool_with_archives_alone_closes_and_says_that_it_has_them(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.one.pools.snapshot(POOL, REF, [DECLARED])
    await replicas.server.databases.drop(POOL, REF)
    await replicas.one.pools.undeploy(POOL, REF)
    assert await replicas.two.pools.close(POOL) is True


async def test_an_archive_goes_when_its_time_is_over(replicas: Replicas) -> None:
    await replicas.deployed()
    await replicas.one.pools.snapshot(POOL, REF, [DECLARED])
    backups = replicas.two.opened.backups
    backups.sweep()
    assert [facts.id for facts in await backups.kept()] == [REF.id]
    replicas.server.run("UPDATE archives SET since = now() - interval '31 days'")
    backups.sweep()
    assert await backups.kept() == ()
    assert replicas.server.rows("SELECT count(*) FROM blobs WHERE name LIKE 'archive/%'") == [0]


async def test_a_replica_keeps_nothing_that_is_not_a_copy(replicas: Replicas, tmp_path: Path) -> None:
    await replicas.deployed()
    await replicas.published()
    async with pool_of(tmp_path / "three", server=replicas.server.url, keys=replicas.one.keys) as three:
        assert [app.version for app in await three.admin().apps()] == ["1.0.0"]
        download = await three.admin().download("crm", "1.0.0")
        assert download.path.read_bytes() == (tmp_path / "crm-1.0.0.tapp").read_bytes()
