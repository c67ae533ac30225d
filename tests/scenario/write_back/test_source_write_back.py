"""A REST write of what a Source declares becomes a commit to that Source's repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenantry.model.resource import Ref
from tests.scenario.failing_git import MODES, FailingGit
from tests.scenario.git.source_world import SYSTEM, reason
from tests.scenario.git_world import ACME, DEV, REGION
from tests.scenario.repositories import BEN, Remote, served_over_http
from tests.scenario.write_back.written_source import BRANCH, HOME, HOOK, WriteContext, at, follows, remote, writing
from tests.support.signing_keys import keys, ssh_key

__all__ = ["at", "keys", "remote"]


@pytest.mark.slow
async def test_an_edit_a_creation_and_a_deletion_are_commits_of_their_caller_which_the_source_shows(at: WriteContext) -> None:
    await follows(at)
    assert (await at.rename("dev", "Development")).status_code == 200
    assert at.shown("p/dev.yaml") == DEV.replace('"Dev"', '"Development"')
    assert at.remote.git("log", "-1", "--format=%an <%ae>", "main") == "root <root@tenantry.invalid>"
    dev = await at.world.get("Environment", "dev", HOME)
    assert dev is not None
    assert dev["metadata"]["annotations"]["tenantry.dev/source-commit"] == at.remote.git("rev-parse", "main")
    assert (await at.create("qa")).status_code == 202
    assert "p/tenant-acme/environment-qa.yaml" in at.paths()
    assert await at.owner("Environment", "qa", HOME) == "tenantry-system.platform"
    answer = await at("DELETE", f"/environments/{await at.id_of('/environments', 'dev')}")
    assert answer.status_code == 202, answer.text
    assert "p/dev.yaml" not in at.paths()
    await at.world.until_gone(Ref("Environment", HOME, "dev"))
    status = await at.world.synced()
    tip = at.remote.git("rev-parse", "main")
    assert (reason(status), status["revision"], status["settledRevision"], status["objects"]) == ("Succeeded", tip, tip, 3)


@pytest.mark.slow
async def test_a_source_that_takes_no_writes_refuses_with_file_and_commit_until_it_does(at: WriteContext) -> None:
    await follows(at, writeBack={"mode": "Off"})
    answer = await at.rename("dev", "Mine")
    assert answer.status_code == 400
    assert f"p/dev.yaml:1 of {at.remote.git('rev-parse', 'main')[:12]}" in answer.json()["error"]
    platform = Ref("Source", SYSTEM, "platform")
    await at.world.edit(platform, writeBack=BRANCH)
    await at.world.synced()
    assert (await at.rename("dev", "Mine")).status_code == 200
    await at.world.edit(platform, suspend=True)
    answer = await at.rename("dev", "Yours")
    assert (answer.status_code, "tenantry-system.platform is suspended" in answer.json()["error"]) == (400, True), answer.text


@pytest.mark.slow
async def test_a_new_object_is_refused_where_its_file_would_not_be_read_or_would_break_the_source(at: WriteContext) -> None:
    manifest, notes = "id: crm\nversion: 1.0.0\n", "mine: true\n"
    taken = {
        "p/crm/app.yaml": manifest,
        "p/crm/qa.yaml": notes,
        "p/Folder.yaml/a.yaml": "",
        "p/Tenant-acme/environment-x.yaml": "",
    }
    await follows(at, writeBack={**BRANCH, "path": "crm/{name}.yaml"})
    before = at.remote.commit(taken)
    platform = Ref("Source", SYSTEM, "platform")
    for path, wrong in (
        ("crm/{name}.yaml", "p/crm/qa.yaml: is left out or belongs to a package, and declares nothing"),
        ("{namespace}/{kind}-x.yaml", "p/tenant-acme/environment-x.yaml: differs from"),
        ("Folder.yaml", "Folder.yaml is a folder"),
    ):
        await at.world.edit(platform, writeBack={**BRANCH, "path": path})
        await at.world.synced()
        answer = await at.create("qa")
        assert answer.status_code == 400 and wrong in answer.json()["error"], answer.text
    assert at.remote.git("rev-parse", "main") == before
    assert await at.world.get("Environment", "qa", HOME) is None


@pytest.mark.slow
async def test_for_review_nothing_changes_until_the_branch_is_merged(at: WriteContext) -> None:
    await follows(at, writeBack={"mode": "Review"})
    before = at.remote.git("rev-parse", "main")
    answer = await at.rename("dev", "Development")
    assert (answer.status_code, answer.json()["branch"][:25]) == (202, "tenantry/environment-dev-"), answer.text
    assert at.remote.git("rev-parse", "main") == before
    at.remote.git("update-ref", "refs/heads/main", answer.json()["branch"])
    await at.world.synced()
    dev = await at.world.get("Environment", "dev", HOME)
    assert dev and dev["spec"]["displayName"] == "Development"


@pytest.mark.slow
async def test_a_remote_that_refuses_the_push_is_told_and_nothing_is_changed(at: WriteContext) -> None:
    hook = at.remote.folder / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)
    await follows(at)
    before = at.remote.git("rev-parse", "main")
    answer = await at.rename("dev", "Mine")
    assert answer.status_code == 500 and "main is protected" in answer.json()["error"], answer.text
    assert (await at.create("qa")).status_code == 500
    assert at.remote.git("rev-parse", "main") == before
    assert await at.world.get("Environment", "qa", HOME) is None


@pytest.mark.slow
async def test_what_was_pushed_meanwhile_is_built_upon_or_refused_with_409(at: WriteContext) -> None:
    await follows(at)
    theirs = at.remote.commit({"p/acme.yaml": ACME.replace("Acme   #", "Acme Inc  #")}, BEN)
    assert (await at.rename("dev", "Development")).status_code == 200
    assert at.remote.git("rev-parse", "main^") == theirs
    await at.world.synced()
    at.remote.commit({"p/dev.yaml": DEV.replace('"Dev"', '"Theirs"')}, BEN)
    answer = await at.rename("dev", "Mine")
    assert (answer.status_code, "p/dev.yaml:1" in answer.json()["error"]) == (409, True), answer.text


@pytest.mark.slow
async def test_a_tenant_s_own_source_takes_what_is_made_in_its_namespace(tmp_path: Path, remote: Remote) -> None:
    own = Remote.at(remote.folder.parent / "own.git")
    own.git("config", "http.receivepack", "true")
    own.commit({"qa.yaml": DEV.replace("name: dev", "name: qa").replace("slug: dev", "slug: qa")})
    with served_over_http(remote.folder.parent) as served:
        async with writing(tmp_path / "state", remote, http=True, networks="127.0.0.0/8") as at:
            await follows(at)
            await at.world.secret("git", HOME, password="ann:token")
            credentials = {"secretRef": {"name": "git"}}
            await follows(at, "own", HOME, path=None, url=f"{served.url}/own.git", credentials=credentials)
            assert (await at.create("test")).status_code == 202
            assert own.git("ls-tree", "-r", "--name-only", "main").splitlines() == ["qa.yaml", f"{HOME}/environment-test.yaml"]
            assert await at.owner("Environment", "test", HOME) == "tenant-acme.own"
            assert "Basic YW5uOnRva2Vu" in served.authorizations
            assert (await at.rename("dev", "The platform's")).status_code == 200
            assert "The platform's" in at.shown("p/dev.yaml")
            assert (await at("POST", "/tenants", json={"name": "Beta", "slug": "beta"})).status_code == 201
            assert "p/tenant-beta.yaml" in at.paths()


@pytest.mark.slow
async def test_of_two_sources_that_declares_the_surroundings_which_takes_a_new_object(at: WriteContext) -> None:
    other = at.remote.commit({"q/us.yaml": REGION.replace("name: eu", "name: us")})
    await follows(at)
    await follows(at, "other", path="q")
    assert (await at.create("qa")).status_code == 202
    assert "p/tenant-acme/environment-qa.yaml" in at.paths()
    answer = await at("POST", "/tenants", json={"name": "Beta", "slug": "beta"})
    assert answer.status_code == 400, answer.text
    assert "any of the sources tenantry-system.other, tenantry-system.platform" in answer.json()["error"]
    assert at.remote.git("rev-parse", "main^") == other


@pytest.mark.slow
async def test_what_is_written_is_signed_by_the_key_of_its_secret(at: WriteContext, keys: Path) -> None:
    good, own = ssh_key(keys, "good"), ssh_key(keys, "own")
    good.sign(at.remote)
    trusted = good.trusted + own.trusted.replace(b"ben@", b"tenantry@")
    signing = {"mode": "Branch", "signingKey": {"secretRef": {"name": "key"}}}
    await at.world.source(at.url(), path="p", verify={"keys": trusted.decode()}, writeBack=signing)
    assert reason(await at.world.until("platform", SYSTEM)) == "SecretMissing"
    await at.world.secret("key", SYSTEM, password=own.key.read_text())
    await at.world.until("platform", SYSTEM, lambda status: reason({**status}) == "Succeeded")
    assert (await at.rename("dev", "Signed")).status_code == 200
    assert "gpgsig" in at.remote.git("cat-file", "commit", "main")
    assert reason(await at.world.synced()) == "Succeeded"


@pytest.mark.slow
async def test_what_is_signed_by_a_key_that_is_not_trusted_is_not_pushed(at: WriteContext, keys: Path) -> None:
    good, own = ssh_key(keys, "good"), ssh_key(keys, "own")
    good.sign(at.remote)
    before = at.remote.git("rev-parse", "main")
    await at.world.secret("key", SYSTEM, password=own.key.read_text())
    signing = {**BRANCH, "signingKey": {"secretRef": {"name": "key"}}}
    await follows(at, verify={"keys": good.trusted.decode()}, writeBack=signing)
    answer = await at.rename("dev", "Mine")
    assert answer.status_code == 500 and "its signature was not made with a key of spec.verify.keys" in answer.json()["error"], (
        answer.text
    )
    assert at.remote.git("rev-parse", "main") == before
    assert reason(await at.world.synced()) == "Succeeded"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_a_write_survives_a_failure_of_every_git_command(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    git = FailingGit.at(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{git.folder}:{os.environ['PATH']}")
    async with writing(tmp_path / "state", remote) as at:
        await follows(at)
        for number in range(1, 17):
            git.arm(number, mode)
            answer = await at.rename("dev", f"Edit {number}")
            git.disarm()
            assert answer.status_code in (200, 500, 503), answer.text
            assert f'"Edit {number}"' in at.shown("p/dev.yaml") or answer.status_code != 200
            assert reason(await at.world.synced()) == "Succeeded"
            dev = await at.world.get("Environment", "dev", HOME)
            assert dev and f'"{dev["spec"]["displayName"]}"' in at.shown("p/dev.yaml")
