"""A plan that was looked at is what is done, or nothing is: `plan -o plan`, `apply --plan`, and REST's If-Plan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenario.cli import called, serving, until
from tests.scenario.rest_world import World, world_in
from tests.support.saved_plans import PLATFORM, source_in


def saved(cwd: Path, source: str = "src") -> str:
    planned = called("plan", source, "-o", "plan", cwd=cwd)
    assert planned.returncode == 1, planned.stderr
    (cwd / "change.plan").write_text(planned.stdout)
    return planned.stdout


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a saved plan made the platform of PLATFORM."""
    cwd = tmp_path_factory.mktemp("saved")
    source_in(cwd / "src")
    text = saved(cwd)
    assert "hunter22" not in text
    done = called("apply", "--plan", "change.plan", cwd=cwd)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "+ App/tenant-acme/dev.crm" in done.stdout
    return cwd


@pytest.fixture
def cwd(applied: Path, tmp_path: Path) -> Path:
    """The same, to be changed. The source lies elsewhere than it did."""
    return Path(shutil.copytree(applied, tmp_path / "cwd"))


def edit(cwd: Path, old: str, new: str) -> None:
    file = cwd / "src" / "platform.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.slow
def test_what_was_planned_is_what_there_is(cwd: Path) -> None:
    again = called("plan", "src", cwd=cwd)
    assert (again.stdout, again.stderr, again.returncode) == ("", "no changes\n", 0)
    apps = json.loads(called("get", "apps", "-o", "json", cwd=cwd).stdout)
    assert [each["status"]["installedVersion"] for each in apps] == ["1.0.0"]


@pytest.mark.slow
def test_a_saved_plan_tells_the_fields_and_is_the_same_however_often_it_is_made(cwd: Path) -> None:
    edit(cwd, "displayName: Acme", "displayName: Acme Ltd")
    first = json.loads(saved(cwd))
    assert first["changes"] == ['~ Tenant/acme (spec.displayName: "Acme" -> "Acme Ltd")']
    assert json.loads(saved(cwd)) == first


@pytest.mark.slow
def test_a_plan_that_nothing_has_moved_is_applied_also_where_its_source_lies_elsewhere(cwd: Path) -> None:
    edit(cwd, "displayName: Acme", "displayName: Acme Ltd")
    saved(cwd)
    (cwd / "src").rename(cwd / "elsewhere")
    lost = called("apply", "--plan", "change.plan", cwd=cwd)
    assert (lost.returncode, "no such file or directory" in lost.stderr) == (2, True)
    done = called("apply", "--plan", "change.plan", "-f", "elsewhere", cwd=cwd)
    assert (done.stdout, done.returncode) == ('~ Tenant/acme (spec.displayName: "Acme" -> "Acme Ltd")\n', 0)
    assert called("plan", "elsewhere", cwd=cwd).returncode == 0


@pytest.mark.slow
def test_a_plan_of_an_object_in_a_tenant_s_namespace_is_applied(cwd: Path) -> None:
    edit(cwd, "name: dev, namespace: tenant-acme}\nspec: {", "name: dev, namespace: tenant-acme}\nspec: {displayName: Dev, ")
    saved(cwd)
    done = called("apply", "--plan", "change.plan", cwd=cwd)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.startswith("~ Environment/tenant-acme/dev")


def rename_tenant(cwd: Path) -> None:
    edit(cwd, "displayName: Acme Ltd", "displayName: Acme GmbH")


def add_environment(cwd: Path) -> None:
    text = (
        "\n---\napiVersion: tenantry.dev/v1alpha1\nkind: Environment\n"
        "metadata: {name: live, namespace: tenant-acme}\nspec: {region: eu}\n"
    )
    (cwd / "src" / "more.yaml").write_text(text)


def take_it_back(cwd: Path) -> None:
    edit(cwd, "displayName: Acme Ltd", "displayName: Acme")


def change_the_password_again(cwd: Path) -> None:
    edit(cwd, "hunter23", "hunter24")


def break_it(cwd: Path) -> None:
    edit(cwd, "spec: {region: eu, engine: {}}", "spec: {regoin: eu}")


def suspend_it(cwd: Path) -> None:
    """Somebody else changes what the plan is about."""
    assert called("suspend", "tenant/acme", cwd=cwd).returncode == 0


MOVED: dict[str, tuple[Callable[[Path], None], str]] = {
    "another value": (rename_tenant, 'now it would also do: ~ Tenant/acme (spec.displayName: "Acme" -> "Acme GmbH")'),
    "another password, which no plan tells": (change_the_password_again, "is not as it was"),
}
MORE: dict[str, tuple[Callable[[Path], None], str]] = {
    "one object more": (add_environment, "now it would also do: + Environment/tenant-acme/live"),
    "one object less": (take_it_back, 'now it would not do: ~ Tenant/acme (spec.displayName: "Acme" -> "Acme Ltd")'),
    "a broken file": (break_it, "platform.yaml:14: spec.regoin"),
    "the object changed": (suspend_it, "now it would"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("move", "why"),
    [
        *(pytest.param(*row, id=name) for name, row in MOVED.items()),
        *(pytest.param(*row, id=name, marks=pytest.mark.slow) for name, row in MORE.items()),
    ],
)
def test_a_plan_that_has_moved_is_refused_and_nothing_is_done(cwd: Path, move: Callable[[Path], None], why: str) -> None:
    edit(cwd, "displayName: Acme", "displayName: Acme Ltd")
    edit(cwd, "hunter22", "hunter23")
    saved(cwd)
    move(cwd)
    before = called("get", "tenants", "-o", "json", cwd=cwd).stdout
    refused = called("apply", "--plan", "change.plan", cwd=cwd)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith("the plan is out of date: ")
    assert why in refused.stderr
    assert called("get", "tenants", "-o", "json", cwd=cwd).stdout == before


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"apiVersion": "tenantry.dev/plan/v1"}', "\x00", "null"])
def test_what_is_no_plan_is_refused(cwd: Path, text: str) -> None:
    (cwd / "change.plan").write_text(text)
    refused = called("apply", "--plan", "change.plan", cwd=cwd)
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        2,
        "change.plan is not a plan; `tenantry plan SOURCE -o plan > FILE` makes one",
    )


def test_a_source_with_problems_saves_no_plan_and_its_comment_tells_them(cwd: Path) -> None:
    break_it(cwd)
    planned = called("plan", "src", "-o", "plan", cwd=cwd)
    assert (planned.stdout, planned.returncode) == ("", 2)
    comment = called("plan", "src", "--markdown", cwd=cwd)
    assert comment.returncode == 2
    assert comment.stdout.splitlines()[1:5] == [
        "### Tenantry: the source is refused",
        "",
        "> [!WARNING]",
        "> The source is refused:",
    ]
    assert "platform.yaml:14" in comment.stdout


@pytest.mark.slow
def test_where_a_source_is_followed_it_is_changed_there(cwd: Path) -> None:
    source_in(cwd / "other", PLATFORM.replace("displayName: Acme", "displayName: Other"))
    with serving("up", "src", "--listen", "127.0.0.1:0", cwd=cwd):
        saved(cwd, "other")
        refused = called("apply", "--plan", "change.plan", cwd=cwd)
        edit(cwd, "displayName: Acme", "displayName: Acme Ltd")
        until(lambda: "Acme Ltd" in called("get", "tenants", "-o", "json", cwd=cwd).stdout)
        done = called("plan", "src", cwd=cwd)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"the source default is followed here, from {cwd / 'src'}: change it there\n"
    assert done.returncode == 0


async def digest_of(world: World, method: str, path: str, **options: object) -> str:
    planned = await world("root", method, f"{path}{'&' if '?' in path else '?'}dryRun=true", **options)
    assert planned.status_code == 200, planned.text
    return str(planned.json()["digest"])


async def test_a_write_is_made_while_its_plan_holds_and_refused_once_it_has_moved(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        await world.platform.converged()
        path, body = f"/tenants/{tenant}", {"name": "Acme Ltd", "slug": "acme-2"}
        digest = await digest_of(world, "PUT", path, json=body)
        assert digest == await digest_of(world, "PUT", path, json=body)
        assert (await world("root", "PUT", path, json={"name": "Other"})).status_code == 200
        await world.platform.converged()
        refused = await world("root", "PUT", path, json=body, headers={"If-Plan": digest})
        assert (refused.status_code, refused.json()["error"].split(":")[0]) == (412, "If-Plan")
        assert (await world("root", "GET", path)).json()["name"] == "Other"
        fresh = await digest_of(world, "PUT", path, json=body)
        other = await world("root", "PUT", path, json={**body, "slug": "acme-3"}, headers={"If-Plan": fresh})
        assert other.status_code == 412
        for _ in range(2):  # what is done already is no surprise
            made = await world("root", "PUT", path, json=body, headers={"If-Plan": f'"{fresh}"'})
            assert (made.status_code, made.json()["slug"]) == (200, "acme-2")
        bad = await world("root", "PUT", path, json=body, headers={"If-Plan": "soon"})
        assert (bad.status_code, "If-Plan" in bad.json()["error"]) == (400, True)


@pytest.mark.slow
async def test_every_kind_of_write_has_a_plan_that_holds_until_it_is_made(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        await world.platform.converged()
        environment = (await world.environment("acme", "dev"))["environment"]["id"]
        await world.platform.converged()
        people = f"/engines/{environment}/api/v1/admin/identities"
        user = {"username": "vera", "password": "a long password", "tenantId": tenant, "type": "VIEWER"}
        writes = (
            ("POST", "/tenants", {"name": "Umbra", "slug": "umbra"}),
            ("POST", f"/environments?tenantId={tenant}", {"name": "Live", "slug": "live", "region": "here"}),
            ("PUT", f"/environments/{environment}", {"name": "Development"}),
            ("POST", "/users", user),
            ("POST", people, {"username": "ann", "password": "a long password"}),
            ("DELETE", f"/environments/{environment}", None),
        )
        named = await digest_of(world, "POST", "/tenants", json={"name": "Umbra", "slug": "umbra"})
        assert named != await digest_of(world, "POST", "/tenants", json={"name": "Other", "slug": "umbra"})
        for method, path, body in writes:
            await world.platform.converged()
            options = {"json": body} if body else {}
            digest = await digest_of(world, method, path, **options)
            wrong = await world("root", method, path, headers={"If-Plan": "0" * 64}, **options)
            assert wrong.status_code == 412, (method, path, wrong.text)
            made = await world("root", method, path, headers={"If-Plan": digest}, **options)
            assert made.status_code in (200, 201, 202), (method, path, made.text)
