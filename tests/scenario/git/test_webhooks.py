"""A signed push of GitHub, GitLab or Gitea is fetched at once; whatever else arrives there changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.api.webhooks import LARGEST, is_signed, repository_path
from tests.scenario.git.source_world import SYSTEM, source_world
from tests.scenario.git_world import ACME, DEV, REGION, World, git_world
from tests.scenario.repositories import Remote
from tests.support.waiting import eventually

SECRET = "a secret of a webhook"
HOSTILE = (
    b"",
    b"{}",
    b"\xff\xfe",
    b'{"ref": 3, "repository": []}',
    b'{"repository": {"clone_url": "http://["}}',
    b'{"repository": {"clone_url": "git@[::1:a/b"}}',
    b'{"repository": {"url": "https://\xe2\x84\x80.example/a"}}',
    b'{"repository": {"clone_url": 7, "html_url": null}, "project": "x"}',
    b'{"repository": {"clone_url": "\\ud800"}}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"ref": 1e999}',
)
"""Signed bodies of pushes that name no repository."""
PATH = "/webhooks/git"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    made = Remote.at(tmp_path / "remote")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    return made


def signature(raw: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()


def pushed(remote: Remote, part: str = "repository", field: str = "clone_url", ref: str = "refs/heads/main") -> bytes:
    return json.dumps({"ref": ref, part: {field: f"https://git.example.com{remote.folder}.git"}}).encode()


def headers_of(forge: str, raw: bytes, secret: str = SECRET) -> dict[str, str]:
    return {
        "github": {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature(raw, secret)}"},
        "gitlab": {"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": secret},
        "gitea": {"X-Gitea-Event": "push", "X-Gitea-Signature": signature(raw, secret)},
        "none": {},
    }[forge]


@pytest.mark.slow
async def test_a_push_is_applied_at_once_and_a_burst_of_them_by_one_sync(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote, webhook_secret=tmp_path / "secret") as world:
        reads = counted(world)
        for number, (forge, part, field) in enumerate(
            [("github", "repository", "clone_url"), ("gitlab", "project", "git_http_url"), ("gitea", "repository", "html_url")]
        ):
            remote.commit({"new.yaml": ACME.replace("acme", f"by-{forge}")})
            raw = pushed(remote, part, field)
            answer = await world("POST", PATH, content=raw, headers=headers_of(forge, raw))
            assert answer.status_code == 202, answer.text
            await eventually(lambda: len(reads) > number)  # noqa: B023
            async with world.feed.turn():
                assert await world.get("Tenant", f"by-{forge}")
        reads.clear()
        raw = pushed(remote)
        async with world.feed.turn():
            answers = await asyncio.gather(
                *(world("POST", PATH, content=raw, headers=headers_of("github", raw)) for _ in range(50))
            )
        assert {answer.status_code for answer in answers} == {202}
        await eventually(lambda: len(reads) > 0)
        await world.sync()
        assert len(reads) <= 3, "one that had begun, one for all of them, and our own"


def counted(world: World) -> list[None]:
    """One item for each time that the source is read."""
    reads: list[None] = []
    read = world.feed._read

    async def reading() -> Any:
        try:
            return await read()
        finally:
            reads.append(None)

    world.feed._read = reading
    return reads


async def test_what_is_not_signed_or_not_for_us_asks_for_nothing(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote, webhook_secret=tmp_path / "secret") as world:
        reads, good = counted(world), pushed(remote)
        for forge in ("github", "gitlab", "gitea", "none"):
            answer = await world("POST", PATH, content=good, headers=headers_of(forge, good, "another secret, as long"))
            assert answer.status_code == 401, forge
        tampered = await world("POST", PATH, content=good + b" ", headers=headers_of("github", good))
        assert tampered.status_code == 401
        elsewhere = json.dumps({"ref": "refs/heads/main", "repository": {"clone_url": "https://x.example/a/b.git"}}).encode()
        for raw in (pushed(remote, ref="refs/heads/other"), elsewhere):
            answer = await world("POST", PATH, content=raw, headers=headers_of("gitea", raw))
            assert (answer.status_code, answer.content) == (204, b""), raw
        ping = headers_of("github", good) | {"X-GitHub-Event": "ping"}
        assert (await world("POST", PATH, content=good, headers=ping)).status_code == 204
        for raw, code in ((b"payload=1", 400), (b"[]", 400), (b"x" * (LARGEST + 1), 413), *((raw, 400) for raw in HOSTILE)):
            assert (await world("POST", PATH, content=raw, headers=headers_of("github", raw))).status_code == code, raw[:80]
        await asyncio.sleep(0)
        assert not reads


async def test_without_a_secret_there_is_no_such_route(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        raw = pushed(remote)
        assert (await world("POST", PATH, content=raw, headers=headers_of("github", raw, ""))).status_code == 404


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://git.example.com/acme/Platform.git", "acme/platform"),
        ("ssh://git@git.example.com:2222/acme/platform.git", "acme/platform"),
        ("git@git.example.com:acme/platform.git", "acme/platform"),
        ("https://git.example.com/acme/platform/", "acme/platform"),
        ("file:///srv/platform.git", "srv/platform"),
    ],
)
def test_the_names_of_one_repository_are_one(url: str, path: str) -> None:
    assert repository_path(url) == path


@pytest.mark.parametrize("given", [{}, {"x-hub-signature-256": "sha256="}, {"x-gitlab-token": ""}, {"x-hub-signature-256": "é"}])
def test_an_empty_signature_is_none(given: dict[str, str]) -> None:
    assert not is_signed(given, b"{}", SECRET.encode())


@pytest.mark.slow
async def test_a_push_has_the_sources_looked_at_whose_secret_signs_it(remote: Remote, tmp_path: Path) -> None:
    async with source_world(tmp_path / "state") as world:
        transport = httpx.ASGITransport(create_app(world.platform.facade), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:

            async def push(secret: str, ref: str = "refs/heads/main") -> int:
                raw = pushed(remote, ref=ref)
                answer = await http.post(f"/api/v1{PATH}", content=raw, headers=headers_of("github", raw, secret))
                return answer.status_code

            assert await push(SECRET) == 404
            await world.secret("hook", SYSTEM, password=SECRET)
            await world.secret("short", SYSTEM, password="short")
            for name, secret in (("listens", "hook"), ("deaf", "short")):
                webhook = {"secretRef": {"name": secret}}
                await world.source(f"file://{remote.folder}", name, webhook=webhook, path="eu.yaml")
                await world.until(name, SYSTEM)
            tip = remote.commit({"other.yaml": REGION.replace("eu", "us")})
            assert [await push("another secret, as long"), await push("short"), await push("")] == [401, 401, 401]
            assert await push(SECRET, "refs/heads/other") == 204
            assert await push(SECRET) == 202
            await world.until("listens", SYSTEM, lambda told: told["revision"] == tip)
            assert (await world.until("deaf", SYSTEM))["revision"] != tip
