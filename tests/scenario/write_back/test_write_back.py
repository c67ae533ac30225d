"""A REST write of what Git declares becomes a commit, and is answered once the remote has it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantry.packages.build import build
from tests.scenario.git_world import ACME, API, DEV, REGION, World, git_world
from tests.scenario.repositories import BEN, Remote, served_over_http

QA = DEV.replace("name: dev", "name: qa").replace("slug: dev", "slug: qa")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV})
    return made


def shown(remote: Remote, path: str, ref: str = "main") -> str:
    return remote.git("show", f"{ref}:{path}") + "\n"


def paths(remote: Remote, ref: str = "main") -> list[str]:
    return remote.git("ls-tree", "-r", "--name-only", ref).splitlines()


def annotation(document: Any, name: str) -> str:
    return str(document["metadata"]["annotations"].get(f"tenantry.dev/{name}", ""))


async def changes_nothing(world: World) -> None:
    """The sync of what was written back finds everything as it is declared."""
    await world.sync()
    done = world.feed.last
    assert (done.created, done.changed, done.pruned, done.kept, done.waiting, done.problems) == ((), (), (), (), (), ())


@pytest.mark.slow
async def test_an_edit_becomes_a_commit_of_its_caller_and_keeps_what_people_wrote(remote: Remote, tmp_path: Path) -> None:
    before = remote.git("rev-parse", "main")
    async with git_world(tmp_path / "state", remote) as world:
        id_ = await world.id_of("/environments", "dev")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Development"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["name"] == "Development"
        assert shown(remote, "acme/dev.yaml") == DEV.replace('"Dev"', '"Development"')
        commit = remote.git("rev-parse", "main")
        assert remote.git("rev-parse", "main^") == before
        assert remote.git("diff", "--name-only", "main^", "main") == "acme/dev.yaml"
        author, committer, head, _, *rest = world.told().splitlines()
        assert (author, committer, head) == ("root <root@tenantry.invalid>", "Tenantry", "Update environment tenant-acme/dev")
        assert 'spec.displayName: "Dev" -> "Development"' in rest
        trailers = remote.git(
            "log", "-1", "--format=%(trailers:key=Object,key=Operation,key=Requested-by,separator=%x2C)", "main"
        )
        assert trailers == "Operation: UPDATE_ENVIRONMENT,Object: Environment/tenant-acme/dev,Requested-by: root"
        assert len(remote.git("log", "-1", "--format=%(trailers:key=Request-id,valueonly)", "main")) == 32
        await world.platform.converged()
        stored = await world.get("Environment", "dev", "tenant-acme")
        assert annotation(stored, "source-commit") == commit
        assert annotation(stored, "source-author") == "root <root@tenantry.invalid>"
        assert annotation(stored, "requested-by") == "root"
        await changes_nothing(world)
        assert await world.get("Environment", "dev", "tenant-acme") == stored
        assert world.feed.tree.revision and world.feed.tree.revision.commit == commit


@pytest.mark.slow
async def test_what_is_made_over_rest_is_declared_in_a_file_of_its_own(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        tenant = await world.id_of("/tenants", "acme")
        body = {"name": "yes", "slug": "qa", "region": "eu"}
        answer = await world("POST", f"/environments?tenantId={tenant}", json=body, headers={"Prefer": "wait=60"})
        assert answer.status_code == 202, answer.text
        assert shown(remote, "tenant-acme/environment-qa.yaml") == (
            f"{API}kind: Environment\nmetadata:\n  name: qa\n  namespace: tenant-acme\n"
            'spec:\n  displayName: "yes"\n  slug: qa\n  region: eu\n'
        )
        assert "Operation: CREATE_ENVIRONMENT" in world.told()
        stored = await world.get("Environment", "qa", "tenant-acme")
        assert stored and stored["metadata"]["labels"]["tenantry.dev/source"] == "default"
        assert annotation(stored, "source-file") == "tenant-acme/environment-qa.yaml:1"
        await changes_nothing(world)
        made = await world("POST", "/tenants", json={"name": "Beta", "slug": "beta"})
        assert made.status_code == 201, made.text
        assert "tenant-beta.yaml" in paths(remote), "a kind without a namespace stands at the top"
        await changes_nothing(world)


@pytest.mark.slow
async def test_the_pattern_of_new_files_is_a_setting_and_may_name_one_file_for_many(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote, write_path="{kind}s.yaml") as world:
        for slug in ("one", "two"):
            assert (await world("POST", "/tenants", json={"name": slug, "slug": slug})).status_code == 201
        assert shown(remote, "tenants.yaml").count("kind: Tenant") == 2
        assert [annotation(await world.get("Tenant", slug), "source-file") for slug in ("one", "two")] == [
            "tenants.yaml:1",
            "tenants.yaml:9",
        ]
        await changes_nothing(world)


@pytest.mark.slow
async def test_a_deletion_removes_the_document_and_the_file_when_it_is_empty(remote: Remote, tmp_path: Path) -> None:
    remote.commit({"acme/dev.yaml": f"{DEV}---\n{QA}"})
    async with git_world(tmp_path / "state", remote) as world:
        for slug in ("dev", "qa"):
            id_ = await world.id_of("/environments", slug)
            answer = await world("DELETE", f"/environments/{id_}", headers={"Prefer": "wait=60"})
            assert answer.status_code == 202, answer.text
            await changes_nothing(world)
            assert await world.get("Environment", slug, "tenant-acme") is None
            assert ("acme/dev.yaml" in paths(remote)) == (slug == "dev")
        assert "Operation: DELETE_ENVIRONMENT" in world.told()


@pytest.mark.slow
async def test_a_deletion_takes_along_what_is_declared_inside(remote: Remote, tmp_path: Path) -> None:
    remote.commit({"acme/qa.yaml": QA})
    async with git_world(tmp_path / "state", remote) as world:
        answer = await world("DELETE", f"/tenants/{await world.id_of('/tenants', 'acme')}", headers={"Prefer": "wait=60"})
        assert answer.status_code == 202, answer.text
        assert paths(remote) == ["eu.yaml"]
        assert "- Environment/tenant-acme/dev" in world.told()
        await world.sync()
        assert await world.get("Tenant", "acme") is None
        assert not world.feed.last.kept and not world.feed.last.waiting


@pytest.mark.slow
async def test_a_push_of_somebody_else_in_between_is_kept_and_built_upon(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        theirs = remote.commit({"acme.yaml": ACME.replace("Acme   #", "Acme Inc  #")}, BEN)
        id_ = await world.id_of("/environments", "dev")
        assert (await world("PUT", f"/environments/{id_}", json={"name": "Development"})).status_code == 200
        assert remote.git("rev-parse", "main^") == theirs
        await world.sync()
        tenant = await world.get("Tenant", "acme")
        assert tenant and tenant["spec"]["displayName"] == "Acme Inc"
        assert annotation(tenant, "source-author") == BEN


@pytest.mark.slow
@pytest.mark.parametrize(("method", "options"), [("PUT", {"json": {"name": "Mine"}}), ("DELETE", {})])
async def test_an_object_that_was_pushed_meanwhile_is_refused_with_409_and_synced(
    remote: Remote, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        theirs = remote.commit({"acme/dev.yaml": DEV.replace('"Dev"', '"Theirs"')}, BEN)
        id_ = await world.id_of("/environments", "dev")
        answer = await world(method, f"/environments/{id_}", **options)
        assert answer.status_code == 409, answer.text
        assert "acme/dev.yaml:1" in answer.json()["error"]
        assert remote.git("rev-parse", "main") == theirs
        await world.sync()
        assert (await world("PUT", f"/environments/{id_}", json={"name": "Mine"})).status_code == 200
        assert '"Mine"' in shown(remote, "acme/dev.yaml")


@pytest.mark.slow
async def test_writes_at_once_are_all_committed_each_on_the_one_before(remote: Remote, tmp_path: Path) -> None:
    before = int(remote.git("rev-list", "--count", "main"))
    async with git_world(tmp_path / "state", remote) as world:
        answers = await asyncio.gather(
            *(world("POST", "/tenants", json={"name": f"T{number}", "slug": f"t{number}"}) for number in range(4))
        )
        assert [answer.status_code for answer in answers] == [201] * 4
        assert int(remote.git("rev-list", "--count", "main")) == before + 4
        await changes_nothing(world)


@pytest.mark.slow
async def test_for_review_nothing_changes_until_the_branch_is_merged(remote: Remote, tmp_path: Path) -> None:
    before = remote.git("rev-parse", "main")
    async with git_world(tmp_path / "state", remote, write_back="review") as world:
        id_ = await world.id_of("/environments", "dev")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Development"})
        assert answer.status_code == 202, answer.text
        branch = answer.json()["branch"]
        assert branch.startswith("tenantry/environment-dev-") and answer.json()["commit"] == remote.git("rev-parse", branch)
        again = await world("PUT", f"/environments/{id_}", json={"name": "Development"})
        assert (again.status_code, again.json()["branch"]) == (202, branch), "the same proposal is the same branch"
        assert remote.git("rev-parse", "main") == before
        assert (await world("GET", f"/environments/{id_}")).json()["name"] == "Dev"
        remote.git("update-ref", "refs/heads/main", branch)
        await world.sync()
        assert (await world("GET", f"/environments/{id_}")).json()["name"] == "Development"
        deletion = await world("DELETE", f"/environments/{id_}")
        assert (deletion.status_code, deletion.json()["branch"][:25]) == (202, "tenantry/environment-dev-")
        assert (await world.get("Environment", "dev", "tenant-acme") or {})["metadata"].get("deletionTimestamp") is None
        await changes_nothing(world)


@pytest.mark.slow
async def test_without_write_back_the_refusal_names_file_and_commit(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote, write_back="off") as world:
        answer = await world("PUT", f"/tenants/{await world.id_of('/tenants', 'acme')}", json={"name": "X"})
        assert answer.status_code == 400
        assert f"acme.yaml:3 of {remote.git('rev-parse', 'main')[:12]}" in answer.json()["error"]


@pytest.mark.slow
async def test_secrets_stay_out_of_the_repository(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        body = {"username": "ada", "password": "correct horse battery", "type": "SUPERUSER"}
        assert (await world("POST", "/users", json=body)).status_code == 201
        users = [each for each in (await world("GET", "/users")).json() if each["name"] == "ada"]
        changed = await world("PUT", f"/users/{users[0]['id']}", json={"password": "another horse battery"})
        assert changed.status_code == 200, changed.text
        everything = remote.git("log", "-p", "--all")
        assert "kind: User" in everything and "passwordSecretRef" in everything
        assert "horse" not in everything and "argon2" not in everything and "kind: Secret" not in everything
        await changes_nothing(world)


HOOK = "#!/bin/sh\necho 'main is protected: open a pull request' >&2\nexit 1\n"


@pytest.mark.slow
async def test_a_remote_that_refuses_is_told_and_nothing_is_changed(remote: Remote, tmp_path: Path) -> None:
    hook = remote.folder / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    before = remote.git("rev-parse", "main")
    async with git_world(tmp_path / "state", remote) as world:
        id_, stored = await world.id_of("/environments", "dev"), await world.get("Environment", "dev", "tenant-acme")
        for method, options in (("PUT", {"json": {"name": "Mine"}}), ("DELETE", {})):
            answer = await world(method, f"/environments/{id_}", **options)
            assert answer.status_code == 500 and "main is protected" in answer.json()["error"], answer.text
        assert remote.git("rev-parse", "main") == before
        after = await world.get("Environment", "dev", "tenant-acme")
        assert after and stored and after["spec"] == stored["spec"]
        assert not annotation(after, "deletion-confirmed")
        await changes_nothing(world)


@pytest.mark.slow
async def test_a_remote_that_is_away_is_told_and_nothing_is_changed(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        id_, stored = await world.id_of("/environments", "dev"), await world.get("Environment", "dev", "tenant-acme")
        remote.folder.rename(tmp_path / "elsewhere")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Mine"})
        assert answer.status_code == 503 and "the repository cannot be written" in answer.json()["error"], answer.text
        assert await world.get("Environment", "dev", "tenant-acme") == stored
        (tmp_path / "elsewhere").rename(remote.folder)
        assert (await world("PUT", f"/environments/{id_}", json={"name": "Mine"})).status_code == 200


@pytest.mark.slow
async def test_a_broken_branch_takes_no_writes(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        remote.commit({"bad.yaml": "kind: ["}, BEN)
        answer = await world("PUT", f"/tenants/{await world.id_of('/tenants', 'acme')}", json={"name": "X"})
        assert answer.status_code == 400 and "bad.yaml:2" in answer.json()["error"], answer.text


@pytest.mark.slow
async def test_a_file_that_cannot_be_edited_safely_is_left_to_people(remote: Remote, tmp_path: Path) -> None:
    shared = f"""{API}kind: List
items:
  - {{apiVersion: tenantry.dev/v1alpha1, kind: Tenant, metadata: {{name: one}}, spec: &both {{displayName: Both}}}}
  - {{apiVersion: tenantry.dev/v1alpha1, kind: Tenant, metadata: {{name: two}}, spec: *both}}
"""
    before = remote.commit({"shared.yaml": shared})
    async with git_world(tmp_path / "state", remote) as world:
        answer = await world("PUT", f"/tenants/{await world.id_of('/tenants', 'one')}", json={"name": "One"})
        assert answer.status_code == 400 and "change it there" in answer.json()["error"], answer.text
        assert remote.git("rev-parse", "main") == before


@pytest.mark.slow
async def test_a_dry_run_and_a_wrong_if_match_commit_nothing(remote: Remote, tmp_path: Path) -> None:
    before = remote.git("rev-parse", "main")
    async with git_world(tmp_path / "state", remote) as world:
        path = f"/environments/{await world.id_of('/environments', 'dev')}"
        planned = await world("PUT", f"{path}?dryRun=true", json={"name": "X"})
        assert planned.status_code == 200 and planned.json()["changes"], planned.text
        moved = await world("PUT", path, json={"name": "X"}, headers={"If-Match": '"99.x"'})
        assert moved.status_code == 412
        assert remote.git("rev-parse", "main") == before


@pytest.mark.slow
async def test_a_folder_of_the_repository_is_the_limit_and_stays(remote: Remote, tmp_path: Path) -> None:
    remote.commit({"deploy/beta.yaml": ACME.replace("acme", "beta"), "deploy.md": "notes"})
    async with git_world(tmp_path / "state", remote, "@main:deploy") as world:
        assert (await world("POST", "/tenants", json={"name": "New", "slug": "new"})).status_code == 201
        assert "deploy/tenant-new.yaml" in paths(remote)
        for slug in ("beta", "new"):
            answer = await world("DELETE", f"/tenants/{await world.id_of('/tenants', slug)}", headers={"Prefer": "wait=60"})
            assert answer.status_code == 202, answer.text
            await world.sync()
        assert [each for each in paths(remote) if each.startswith("deploy/")], "a folder that is gone would be an error"
        assert not world.feed.last.problems and not world.feed.last.kept


@pytest.mark.slow
async def test_a_remote_that_is_slow_is_not_waited_for_and_a_sync_tells_what_it_took(remote: Remote, tmp_path: Path) -> None:
    hook = remote.folder / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexec sleep 60\n")
    hook.chmod(0o755)
    before = remote.git("rev-parse", "main")
    async with git_world(tmp_path / "state", remote, write_timeout=timedelta(seconds=8)) as world:
        id_, stored = await world.id_of("/environments", "dev"), await world.get("Environment", "dev", "tenant-acme")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Mine"})
        assert answer.status_code == 503 and "within 8 s" in answer.json()["error"], answer.text
        assert await world.get("Environment", "dev", "tenant-acme") == stored
        assert remote.git("rev-parse", "main") == before


@pytest.mark.slow
async def test_a_remote_behind_http_takes_commits(remote: Remote, tmp_path: Path) -> None:
    remote.git("config", "http.receivepack", "true")
    with served_over_http(tmp_path) as served:
        over_http = replace(remote)
        over_http.url = lambda tail="@main": f"git+{served.url}/remote{tail}"  # type: ignore[method-assign]
        async with git_world(tmp_path / "state", over_http) as world:
            answer = await world("PUT", f"/environments/{await world.id_of('/environments', 'dev')}", json={"name": "Mine"})
            assert answer.status_code == 200, answer.text
            assert '"Mine"' in shown(remote, "acme/dev.yaml")
            await changes_nothing(world)


@pytest.mark.slow
async def test_what_an_engine_holds_is_declared_too_and_taken_back_when_it_refuses(remote: Remote, tmp_path: Path) -> None:
    async with git_world(tmp_path / "state", remote) as world:
        engine = f"/engines/{await world.id_of('/environments', 'dev')}/api/v1/admin"
        made = await world("POST", f"{engine}/identities", json={"username": "ann", "password": "correct horse battery"})
        assert made.status_code in (200, 201), made.text
        declared = [path for path in paths(remote) if path.startswith("tenant-acme/identity-")]
        assert len(declared) == 1 and "username: ann" in shown(remote, declared[0])
        assert "Operation: APPLY_IDENTITY" in world.told()
        for version, size in (("1.0.0", 2), ("1.1.0", 3)):
            answer = await world("POST", f"{engine}/apps/publish", files={"file": ("crm.tapp", package(tmp_path, version))})
            assert answer.status_code in (200, 201, 204), answer.text
            assert len([path for path in paths(remote) if path.startswith("tenant-acme/package-")]) == size - 1
        assert "Operation: INSTALL_APP" in world.told() and "version: 1.1.0" in shown(remote, "tenant-acme/app-dev.crm.yaml")
        await changes_nothing(world)
        gone = await world("DELETE", f"{engine}/identities/ann")
        assert gone.status_code in (200, 204), gone.text
        assert not [path for path in paths(remote) if path.startswith("tenant-acme/identity-")]
        assert (await world("POST", f"{engine}/apps/crm/uninstall")).status_code in (200, 204)
        assert "Operation: UNINSTALL_APP" in world.told()
        await changes_nothing(world)
        assert "horse" not in remote.git("log", "-p", "--all")


def package(folder: Path, version: str) -> bytes:
    source = folder / f"crm-{version}"
    source.mkdir()
    (source / "app.yaml").write_text(f"apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Us\nversion: {version}\n")
    built = folder / f"crm-{version}.tapp"
    build(source, built)
    return built.read_bytes()


@pytest.mark.slow
async def test_a_source_that_is_being_read_is_not_waited_for_without_end_and_no_secret_is_left(
    remote: Remote, tmp_path: Path
) -> None:
    async with git_world(tmp_path / "state", remote, write_timeout=timedelta(seconds=8)) as world:
        secrets = len((await world.platform.state.store.list("Secret"))[0])
        body = {"username": "ada", "password": "correct horse battery", "type": "SUPERUSER"}
        async with world.feed.turn():
            answer = await world("POST", "/users", json=body)
        assert answer.status_code == 503 and "try again" in answer.json()["error"], answer.text
        assert len((await world.platform.state.store.list("Secret"))[0]) == secrets
        assert (await world("POST", "/users", json=body)).status_code == 201


RACER = """#!/bin/sh
for each in "$@"; do
  if [ "$each" = push ] && [ "$(cat {count})" -gt 0 ]; then
    echo $(($(cat {count}) - 1)) > {count}
    export GIT_DIR={remote}
    commit=$(echo race | {git} -c user.name=x -c user.email=x@x commit-tree main^{{tree}} -p main)
    {git} update-ref refs/heads/main "$commit"
    unset GIT_DIR
  fi
done
exec {git} "$@"
"""


@pytest.mark.slow
async def test_a_write_that_others_race_with_waits_and_is_taken(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, count = tmp_path / "bin", tmp_path / "count"
    folder.mkdir()
    (folder / "git").write_text(RACER.format(count=count, remote=remote.folder, git=shutil.which("git")))
    (folder / "git").chmod(0o700)
    count.write_text("0")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    async with git_world(tmp_path / "state", remote) as world:
        id_ = await world.id_of("/environments", "dev")
        count.write_text("9")
        answer = await world("PUT", f"/environments/{id_}", json={"name": "Development"})
        assert (answer.status_code, count.read_text().strip()) == (200, "0"), answer.text
        assert '"Development"' in shown(remote, "acme/dev.yaml")
