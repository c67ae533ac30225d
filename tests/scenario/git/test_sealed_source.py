"""Secrets in a Git repository: encrypted ones are opened at apply and nowhere shown, plain ones are warned of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog

from tenantry.kinds.registry import KINDS
from tests.scenario.cli import called, serving
from tests.scenario.git.sealing import KeyPair, sealed
from tests.scenario.repositories import Remote
from tests.support.followed_repository import API, REGION, World, environment, following, tenant

CLEAR = "hunter2-but-longer"
NEXT = "another-long-password"
KEY, OTHER = KeyPair(), KeyPair()
IDENTITY = f"""{API}kind: Identity
metadata: {{name: ann, namespace: tenant-acme}}
spec: {{environment: dev, username: ann, passwordSecretRef: {{name: ann}}}}
"""
PLATFORM = {"region.yaml": REGION, "acme.yaml": tenant("acme"), "dev.yaml": environment(), "ann.yaml": IDENTITY}


def secret(password: str) -> dict[str, object]:
    metadata = {"name": "ann", "namespace": "tenant-acme", "labels": {"tenantry.dev/credential": "identity"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": password}}


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = KEY.write(tmp_path / "keys.txt")
    monkeypatch.setenv("SOPS_AGE_KEY_FILE", str(file))
    return file


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({**PLATFORM, "secret.yaml": sealed([secret(CLEAR)], KEY)})
    return made


async def everything(world: World) -> str:
    """All that people may see: objects without Secrets, Operations and their logs."""
    kinds = (*KINDS, "Operation", "Namespace")
    documents = [dict(each) for kind in kinds for each in await world.console.list(kind)]
    logs = [await world.console.log(each["metadata"]["name"]) for each in await world.console.list("Operation")]
    return json.dumps(documents) + "".join(logs)


@pytest.mark.slow
async def test_an_encrypted_secret_signs_its_identity_in_and_is_shown_nowhere(remote: Remote, keys: Path, tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as told:
        async with following(tmp_path / "state", remote.url()) as world:
            assert world.problems() == []
            ready = {
                each["type"]: each["status"]
                for each in (await world.get("Identity", "ann", "tenant-acme"))["status"]["conditions"]
            }
            assert ready["Ready"] == "True"
            seen = await everything(world)
            remote.commit({"secret.yaml": sealed([secret(NEXT)], KEY)})
            plan = await world.console.plan(remote.url(), "default")
            assert plan.changes[0] == "~ Secret/tenant-acme/ann (data.password)"
            await world.sync()
            seen += await everything(world) + repr(plan) + repr(await world.console.source())
    for password in (CLEAR, NEXT):
        assert password not in seen + repr(told)


async def test_with_the_wrong_key_the_last_good_state_stays_until_the_right_one_is_there(
    remote: Remote, keys: Path, tmp_path: Path
) -> None:
    async with following(tmp_path / "state", remote.url()) as world:
        before = await world.get("Secret", "ann", "tenant-acme")
        remote.commit({"secret.yaml": sealed([secret(NEXT)], OTHER), "umbra.yaml": tenant("umbra")})
        await world.sync()
        (problem,) = world.problems()
        assert problem.startswith("secret.yaml:")
        assert f"no key of {keys} opens the file; it is encrypted for {OTHER.recipient}" in problem
        assert await world.get("Secret", "ann", "tenant-acme") == before
        assert await world.names("Tenant") == ["acme"], "a commit is taken as a whole"
        OTHER.write(keys)
        await world.sync()
        assert world.problems() == []
        assert (await world.get("Secret", "ann", "tenant-acme"))["data"] != before["data"]
        assert await world.names("Tenant") == ["acme", "umbra"]


def moved(file: Path, to: Path) -> None:
    file.rename(to)


async def test_a_key_that_is_removed_is_noticed_at_the_next_sync(remote: Remote, keys: Path, tmp_path: Path) -> None:
    async with following(tmp_path / "state", remote.url()) as world:
        before = await world.get("Secret", "ann", "tenant-acme")
        moved(keys, keys.with_suffix(".away"))
        await world.sync()
        (problem,) = world.problems()
        assert f"the key file {keys} cannot be read" in problem
        assert await world.get("Secret", "ann", "tenant-acme") == before
        moved(keys.with_suffix(".away"), keys)
        await world.sync()
        assert world.problems() == []


async def test_a_plain_secret_in_a_repository_is_warned_of_once(remote: Remote, keys: Path, tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as told:
        async with following(tmp_path / "state", remote.url()) as world:
            assert (await world.console.source()).exposed == ()
            plain = json.dumps(secret(CLEAR))  # which is YAML
            remote.commit({"secret.yaml": plain})
            await world.sync()
            await world.sync()
            assert (await world.console.source()).exposed == ("secret.yaml:1: Secret/tenant-acme/ann",)
    warnings = [each for each in told if each["log_level"] == "warning" and "not encrypted" in each["event"]]
    assert [(each["object"], each["message"]) for each in warnings] == [("Secret/tenant-acme/ann", "secret.yaml:1")]


def test_validate_opens_it_by_the_setting_and_tells_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "secret.yaml").write_text(sealed([secret(CLEAR)], KEY))
    refused = called("validate", "src", cwd=tmp_path)
    assert (refused.returncode, "TENANTRY_SOPS__AGE_KEY_FILE" in refused.stdout) == (2, True)


@pytest.mark.slow
def test_check_warns_of_a_plain_secret_with_its_place(tmp_path: Path) -> None:
    remote = Remote.at(tmp_path / "remote")
    remote.commit({**PLATFORM, "secret.yaml": json.dumps(secret(CLEAR))})
    with serving("up", remote.url(), "--listen", "127.0.0.1:0", cwd=tmp_path):
        checked = called("check", cwd=tmp_path)
    assert "warning: secret.yaml:1: Secret/tenant-acme/ann is not encrypted there; see docs/secrets.md" in checked.stdout
    assert CLEAR not in checked.stdout
