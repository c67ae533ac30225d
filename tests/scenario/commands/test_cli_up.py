"""`tenantry up` and the commands that speak to it, as processes."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import httpx
import pytest
import yaml

from tests.scenario.cli import COMMAND, PATIENCE_S, Running, called, environment, serving, tenantry, until
from tests.scenario.platforms import PLATFORM, declare

NOBODY = "http://127.0.0.1:1"
FREE = """
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: free}
spec: {displayName: Free}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: lab, namespace: tenant-free}
spec: {region: eu}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("up")
    declare(folder)
    (folder / "free.yaml").write_text(FREE)
    called("package", "build", "platform/packages/crm", "-o", "any.tapp", cwd=folder)
    (folder / "broken.yaml").write_text("apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {name: x}\nspec: {slgu: a}\n")
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=folder) as running:
        yield running


@pytest.mark.slow
def test_it_tells_where_it_is_and_what_to_try(running: Running) -> None:
    assert running.printed[0] == "Ready: 6 objects"  # five of the source, and the User admin
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", running.url)
    assert running.process.stdout is not None
    lines = [running.process.stdout.readline().strip() for _ in range(5)]
    assert lines[:4] == [f"{running.url}/docs", "Try:", "tenantry tree", "tenantry get environments"]
    assert lines[4].startswith("curl -H")


def test_lists_show_what_is_declared(running: Running, folder: Path) -> None:
    listed = called("get", "environments", cwd=folder)
    titles, row = listed.stdout.splitlines()
    assert titles.split() == ["NAMESPACE", "NAME", "READY", "REASON", "VERSION", "WAITS", "FOR", "MESSAGE", "AGE"]
    assert row.split()[:4] == ["tenant-acme", "dev", "True", "Succeeded"]
    wide = called("get", "environments", "-o", "wide", cwd=folder).stdout
    assert f"{running.url}/e/acme/dev" in wide.splitlines()[1].split()
    assert (listed.stderr, listed.returncode) == ("", 0)


def test_json_is_an_array_for_a_list_and_an_object_for_one(running: Running, folder: Path) -> None:
    listed = json.loads(called("get", "tapp", "-n", "tenant-acme", "-o", "json", cwd=folder).stdout)
    assert called("get", "tapp", "-n", "elsewhere", "-A", "-o", "name", cwd=folder).stdout == "app/tenant-acme/dev.crm\n"
    assert [each["status"]["installedVersion"] for each in listed] == ["1.0.0"]
    one = yaml.safe_load(called("get", "app", "dev.crm", "-o", "yaml", cwd=folder).stdout)
    assert one["metadata"]["uid"] == listed[0]["metadata"]["uid"]


def test_a_list_of_sources_names_the_one_that_up_follows(running: Running, folder: Path) -> None:
    shown = called("get", "sources", cwd=folder)
    none, followed = shown.stderr.splitlines()
    assert (none, shown.stdout, shown.returncode) == ("there are no sources here", "", 0)
    assert re.fullmatch(
        r"`up` follows /.+ as the source default, which is not an object; `tenantry check` shows its state", followed
    )
    assert called("get", "sources", "-o", "json", cwd=folder).stderr == ""


def test_a_tree_a_description_and_a_trace(running: Running, folder: Path) -> None:
    tree = called("tree", cwd=folder).stdout
    assert tree.splitlines()[0] == "tenant acme  Ready"
    assert "app crm 1.0.0  Ready" in tree
    described = called("describe", "tenv/tenant-acme/dev", cwd=folder).stdout
    assert "CREATE_ENVIRONMENT   COMPLETED   SUCCESS" in described
    traced = json.loads(called("trace", "app/dev.crm", "-o", "json", cwd=folder).stdout)
    assert [each["object"] for each in traced] == [
        "App/tenant-acme/dev.crm",
        "Package/tenant-acme/crm-1-0-0",
        "Environment/tenant-acme/dev",
        "Tenant/acme",
        "Region/eu",
    ]
    assert traced[0]["file"] == "platform.yaml:21"


def test_operations_and_their_logs(running: Running, folder: Path) -> None:
    listed = json.loads(called("operations", "app/dev.crm", "-o", "json", cwd=folder).stdout)
    assert [each["spec"]["action"] for each in listed] == ["INSTALL_APP"]
    name = listed[0]["metadata"]["name"]
    log = called("logs", name[:12], "--follow", cwd=folder)
    assert "crm: install 1.0.0" in log.stdout
    assert log.returncode == 0


def test_a_plan_of_what_runs_is_empty_and_one_of_an_edit_is_not(running: Running, folder: Path) -> None:
    same = called("plan", "platform", cwd=folder)
    assert (same.stdout, same.stderr, same.returncode) == ("", "no changes\n", 0)
    edited = shutil.copytree(folder / "platform", folder / "edited")
    (edited / "platform.yaml").write_text(PLATFORM.replace("displayName: Acme", "displayName: Acme Ltd"))
    changed = called("plan", "edited", cwd=folder)
    assert "~ Tenant/acme (spec.displayName: " in changed.stdout
    assert changed.returncode == 1
    assert called("plan", "broken.yaml", cwd=folder).returncode == 2


@pytest.mark.slow
def test_apply_then_reconcile_suspend_and_delete(running: Running, folder: Path) -> None:
    applied = called("apply", "-f", "free.yaml", cwd=folder)
    assert (applied.stdout, applied.returncode) == ("tenant/free created\nenvironment/lab created\n", 0)
    reconciled = called("reconcile", "tenv/lab", "--wait", "--timeout", "20s", cwd=folder)
    assert (reconciled.stdout, reconciled.stderr) == ("environment/lab is Ready\n", "")
    assert called("suspend", "tenv/lab", cwd=folder).stdout == "environment/lab suspended\n"
    suspended = called("reconcile", "tenv/lab", "--wait", cwd=folder)
    assert (suspended.stderr, suspended.returncode) == ("environment/lab is suspended; `tenantry resume` it first\n", 1)
    assert called("resume", "tenv/lab", cwd=folder).returncode == 0
    assert called("delete", "tn/free", cwd=folder).stdout == "tenant/free is being deleted\n"


@pytest.mark.slow
def test_a_reconcile_that_needs_somebody_says_what_it_waits_for_at_once(running: Running, folder: Path) -> None:
    identity = {"environment": "dev", "username": "eve", "passwordSecretRef": {"name": "nowhere"}}
    declared = {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Identity",
        "metadata": {"name": "eve", "namespace": "tenant-acme"},
    }
    (folder / "eve.yaml").write_text(yaml.safe_dump({**declared, "spec": identity}))
    assert called("apply", "-f", "eve.yaml", cwd=folder).returncode == 0
    waited = called("reconcile", "identity/eve", "--wait", cwd=folder)
    assert waited.stderr.startswith("identity/eve is not Ready: SecretNotFound: spec.passwordSecretRef: ")
    assert waited.returncode == 1


@pytest.mark.slow
def test_a_wait_ends_when_the_object_is_as_wanted(running: Running, folder: Path) -> None:
    assert called("wait", "environment/dev", cwd=folder).stdout == "environment/dev is Ready\n"
    late = called("wait", "environment/dev", "--for", "condition=Stalled", "--timeout", "1s", cwd=folder)
    assert (late.stderr, late.returncode) == ("environment/dev is not Stalled after 1 s: Succeeded\n", 1)
    assert called("wait", "env/dev", "--for", "Ready", cwd=folder).returncode == 2
    called("apply", "-f", "free.yaml", cwd=folder)
    assert called("wait", "tn/free", cwd=folder).returncode == 0
    called("delete", "tn/free", cwd=folder)
    assert called("wait", "region/eu", "--for", "delete", "--timeout", "1s", cwd=folder).returncode == 1
    for _ in range(2):  # a deletion that ended before the wait began is one, too
        gone = called("wait", "tn/free", "--for", "delete", cwd=folder)
        assert (gone.stdout, gone.stderr, gone.returncode) == ("tenant/free is deleted\n", "", 0)
    assert called("get", "tn", "free", cwd=folder).returncode == 1
    assert called("wait", "nonsense/free", "--for", "delete", cwd=folder).returncode == 2


@pytest.mark.slow
def test_an_edit_applies_what_the_editor_left(running: Running, folder: Path) -> None:
    called("apply", "-f", "free.yaml", cwd=folder)
    editor = "sed -i s/Free/Freedom/"
    assert called("edit", "tenant/free", cwd=folder, EDITOR=editor).stdout == "tenant/free changed\n"
    assert called("edit", "tenant/free", cwd=folder, EDITOR="true").stdout == "nothing changed\n"
    edited = yaml.safe_load(called("get", "tn", "free", "-o", "yaml", cwd=folder).stdout)
    assert edited["spec"]["displayName"] == "Freedom"
    for name, command, sentence in (
        ("tenant/acme", "true", "tenant/acme is declared at platform.yaml:6: edit that file"),
        ("tenant/free", "false", "'false' ended with 1; nothing was applied"),
        ("tenant/free", "sed -i s/displayName/displayNam/", "your changes are in "),
        ("tenant/free", "sed -i s/name:.free/name:\\ other/", "kind, name and namespace stay as they are"),
    ):
        refused = called("edit", name, cwd=folder, EDITOR=command)
        assert refused.returncode != 0
        assert sentence in refused.stderr
    assert called("delete", "tn/free", cwd=folder).returncode == 0
    until(lambda: called("get", "tn", "free", cwd=folder).returncode == 1)


def test_a_list_takes_the_start_of_a_kind_and_labels(running: Running, folder: Path) -> None:
    assert called("get", "env", "-o", "name", cwd=folder).stdout == "environment/tenant-acme/dev\n"
    assert (
        called("get", "env", "-l", "tenantry.dev/source=default", "-o", "name", cwd=folder).stdout
        == "environment/tenant-acme/dev\n"
    )
    assert called("get", "env", "-l", "!tenantry.dev/source", "-o", "name", cwd=folder).stdout == ""
    ambiguous = called("get", "identit", cwd=folder)
    assert (ambiguous.stderr, ambiguous.returncode) == ("'identit' may be identity or identityprovider; write more of it\n", 2)


@pytest.mark.slow
def test_a_watch_prints_what_changes_after_the_list(running: Running, folder: Path) -> None:
    (folder / "seen.yaml").write_text("apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: seen}\n")
    printed = folder / "watched"
    command = [*COMMAND, "get", "regions", "-w"]
    with printed.open("w") as out, Popen(command, cwd=folder, env=environment(), stdout=out) as watching:
        try:
            until(lambda: printed.read_text().splitlines()[1:])
            assert [line.split()[0] for line in printed.read_text().splitlines()] == ["NAME", "eu"]
            assert called("apply", "-f", "seen.yaml", cwd=folder).returncode == 0
            until(lambda: re.search(r"^seen +True", printed.read_text(), re.MULTILINE), printed.read_text)
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE_S) in (0, 130)
    assert called("delete", "region/seen", cwd=folder).returncode == 0


@pytest.mark.slow
def test_a_plan_is_in_colour_on_a_terminal(running: Running, folder: Path) -> None:
    (folder / "colours").mkdir()
    (folder / "colours" / "platform.yaml").write_text(PLATFORM.split("---")[0].replace("name: eu", "name: us"))
    plain = called("plan", "colours", "--source-name", "colours", cwd=folder, columns=80)
    coloured = called("plan", "colours", "--source-name", "colours", cwd=folder, columns=80, NO_COLOR="", TERM="xterm")
    created, *effects = plain.stdout.splitlines()
    assert created == "+ Region/us"
    assert coloured.stdout.splitlines() == [f"\x1b[32m{created}\x1b[0m", *effects]


@pytest.mark.slow
def test_an_object_of_a_kind_without_a_field_for_it_is_suspended_too(running: Running, folder: Path) -> None:
    assert called("suspend", "user/admin", cwd=folder).stdout == "user/admin suspended\n"
    until(lambda: "it is not reconciled until it is resumed" in called("describe", "user/admin", cwd=folder).stdout)
    (titles, row) = called("get", "user", "admin", "-o", "wide", cwd=folder).stdout.splitlines()
    assert row[titles.index("SUSPENDED") :].split()[0] == "True"
    assert "suspended" in called("get", "user", "admin", cwd=folder).stdout
    waited = called("reconcile", "user/admin", "--wait", cwd=folder)
    assert (waited.stderr, waited.returncode) == ("user/admin is suspended; `tenantry resume` it first\n", 1)
    assert called("resume", "user/admin", cwd=folder).stdout == "user/admin resumed\n"
    until(lambda: "Suspended" not in called("describe", "user/admin", cwd=folder).stdout)
    assert "suspended" not in called("get", "user", "admin", cwd=folder).stdout
    refused = called("suspend", "namespace/tenantry-system", cwd=folder)
    assert (refused.returncode, "cannot be suspended" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.slow
def test_edits_are_followed_and_what_leaves_at_once_waits_for_approval(running: Running, folder: Path) -> None:
    region = "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {{name: r{0}}}\n"
    more = folder / "platform" / "more.yaml"
    more.write_text("---\n".join(region.format(number) for number in range(12)))
    until(lambda: len(called("get", "rgn", "-o", "name", cwd=folder).stdout.splitlines()) == 13)
    more.unlink()
    held_back = "and 9 more left the source and are kept: 12 of the source's 17 objects left it at once"
    until(lambda: held_back in called("check", cwd=folder).stdout)
    approved = called("approve", cwd=folder)
    assert sorted(approved.stdout.splitlines()) == sorted(f"Region/r{number} approved" for number in range(12))
    until(lambda: called("get", "rgn", "-o", "name", cwd=folder).stdout == "region/eu\n")
    assert called("approve", cwd=folder).stderr == "nothing in default waits for approval\n"


@pytest.mark.slow
def test_what_waits_for_a_namespace_is_told(running: Running, folder: Path) -> None:
    lost = folder / "platform" / "lost.yaml"
    lost.write_text(FREE.split("---")[1].replace("tenant-free", "tenant-nobody"))
    missing = "namespace tenant-nobody does not exist yet, and none of these Tenants owns it"
    told = f"WRONG source: Environment/tenant-nobody/lab is not applied yet: {missing}"
    until(lambda: told in called("check", cwd=folder).stdout)
    lost.unlink()
    until(lambda: told not in called("check", cwd=folder).stdout)


def test_a_secret_is_read_from_standard_input(running: Running, folder: Path) -> None:
    done = called("secret", "set", "tenant-acme/ada", "password=-", "--for", "identity", cwd=folder, stdin="correct horse\n")
    assert (done.stdout, done.returncode) == ("secret/ada set\n", 0)
    assert "correct horse" not in called("describe", "secret/ada", cwd=folder).stdout


def test_a_package_is_built_alike_twice_inspected_and_pushed(running: Running, folder: Path) -> None:
    first, second = (called("package", "build", "platform/packages/crm", "-o", f"{n}.tapp", cwd=folder) for n in (1, 2))
    assert first.stdout.split()[1] == second.stdout.split()[1]
    shown = json.loads(called("package", "inspect", "1.tapp", "-o", "json", cwd=folder).stdout)
    assert (shown["app"], shown["version"], shown["sha256"]) == ("crm", "1.0.0", first.stdout.split()[1])
    pushed = called("package", "push", "1.tapp", "--tenant", "acme", cwd=folder)
    assert (pushed.stdout, pushed.returncode) == (f"crm 1.0.0  {shown['sha256']}\n", 0)


@pytest.mark.slow
def test_a_token_signs_in_over_rest_and_pushes_a_package(running: Running, folder: Path) -> None:
    token = called("token", "--ttl", "5m", cwd=folder).stdout.strip()
    me = httpx.get(f"{running.url}/api/v1/auth/me", headers={"Authorization": f"Bearer {token}"})
    assert (me.status_code, me.json()["role"]) == (200, "SUPERUSER")
    called("package", "build", "platform/packages/crm", "-o", "rest.tapp", cwd=folder)
    there = ("--server", running.url, "--token", token)
    pushed = called("package", "push", "rest.tapp", "--tenant", "acme", *there, cwd=folder)
    assert (pushed.stderr, pushed.returncode) == ("", 0)
    for arguments, sentence in (
        (("--tenant", "nobody", *there), f"there is no tenant nobody at {running.url}/api/v1\n"),
        (("--server", running.url), "--server needs --token (or TENANTRY_TOKEN)\n"),
        (
            ("--server", NOBODY, "--token", "x"),
            f"{NOBODY} cannot be reached: [Errno 111] Connection refused\n",
        ),
        (("--server", running.url, "--token", "x"), f"{running.url} refused the package: the token is malformed\n"),
    ):
        assert called("package", "push", "rest.tapp", *arguments, cwd=folder).stderr == sentence


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        ("get environmentz", "there is no kind 'environmentz'; did you mean environment?", 2),
        ("get tenv dve", "there is no Environment dve; did you mean dev?", 1),
        (
            "describe tenv/dev -n nowhere",
            "there is no Environment dev in namespace nowhere; there is one in namespace tenant-acme",
            1,
        ),
        ("delete tenant/acme", "Tenant/acme is declared by the source default at platform.yaml:6: remove it there", 1),
        ("up platform --listen 127.0.0.1:0", "the state folder .tenantry is in use by process {pid}", 1),
        ("up platform --listen {address}", "the state folder .tenantry is in use by process {pid}", 1),
        ("up platform --listen {address} --state other",
         "port {port} on 127.0.0.1 is in use; choose another with --listen 127.0.0.1:PORT", 1),
        ("up platform --listen 8080", "--listen: '8080' is not an address; write HOST:PORT, such as 127.0.0.1:8080", 2),
        ("up nothing", "nothing: no such file or directory", 2),
        ("apply -f broken.yaml", "broken.yaml:4: spec.slgu: unknown field \"spec.slgu\"; did you mean slug?", 2),
        ("logs op-nope", "there is no Operation op-nope; `tenantry operations` lists them", 1),
        ("approve other", "no source other is followed here; default is", 1),
        ("token --user nobody", "there is no user nobody", 1),
        ("token --ttl 5", "'5' is not a duration; write 90s, 15m, 1h or 30d", 2),
        ("package push any.tapp --tenant acmee", "there is no Tenant acmee; did you mean acme?", 1),
        ("secret set tenant-acme/x password=hunter22 --for identity",
         "write password=- and give the value on standard input: arguments are seen by everybody", 2),
        ("get tn --state elsewhere",
         "there is no platform in elsewhere; start one with `tenantry up SOURCE --state elsewhere`, or name its folder with"
         " --state", 1),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_sentence(running: Running, folder: Path, arguments: str, sentence: str, code: int) -> None:
    _, _, address = running.url.partition("//")
    known = {"address": address, "port": address.rpartition(":")[2], "pid": running.process.pid}
    done = called(*arguments.format(**known).split(), cwd=folder)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"{sentence.format(**known)}\n", code)


def test_validate_warns_of_a_namespace_that_nobody_owns(tmp_path: Path) -> None:
    (tmp_path / "lost.yaml").write_text(FREE.split("---")[1].replace("tenant-free", "tenant-nobody"))
    found = called("validate", "lost.yaml", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "lost.yaml: 1 document is valid\n")
    assert found.stderr.startswith("warning: lost.yaml:")
    assert "metadata.namespace: tenant-nobody: none of these Tenants owns it" in found.stderr


def test_validate_names_file_line_field_and_reason(folder: Path) -> None:
    found = called("validate", "broken.yaml", cwd=folder)
    assert (found.stdout, found.returncode) == ('broken.yaml:4: spec.slgu: unknown field "spec.slgu"; did you mean slug?\n', 2)
    away = called("validate", "..", cwd=folder / "platform")
    assert '../broken.yaml:4: spec.slgu: unknown field "spec.slgu"; did you mean slug?\n' in away.stdout
    (folder / "bad").mkdir(exist_ok=True)
    (folder / "bad" / "app.yaml").write_text("apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nversion: 1.0\n")
    built = called("package", "build", "bad", cwd=folder)
    said = 'bad/app.yaml:4: version: must be a string; YAML reads 1.0 as the number 1.0: write "1.0"\n'
    assert (built.stderr, built.returncode) == (said, 2)
    assert called("validate", "platform", cwd=folder).stdout == "platform: 5 documents are valid\n"


@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_signal_ends_it_well_and_then_commands_open_the_store(tmp_path: Path, with_signal: signal.Signals) -> None:
    declare(tmp_path)
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=tmp_path) as running:
        assert running.end(with_signal) == 0
    assert (tmp_path / "stderr").read_text().count("Traceback") == 0
    assert not (tmp_path / ".tenantry" / "control.sock").exists()
    assert called("get", "tenv", "-o", "name", cwd=tmp_path).stdout == "environment/tenant-acme/dev\n"


@pytest.mark.slow
def test_once_converges_prints_the_table_and_says_how_it_ended(tmp_path: Path) -> None:
    source = declare(tmp_path)
    ready = tenantry("up", "platform", "--once", cwd=tmp_path)
    assert ready.returncode == 0, ready.stderr
    assert ready.stdout.splitlines()[0].split() == ["OBJECT", "READY", "REASON", "MESSAGE"]
    assert "App/tenant-acme/dev.crm         True" in ready.stdout
    (source / "platform.yaml").write_text(PLATFORM.replace('version: "1.0.0"}\n', 'version: "9.9.9"}\n'))
    assert tenantry("up", "platform", "--once", cwd=tmp_path).returncode == 1
    (source / "platform.yaml").write_text("kind: [")
    broken = tenantry("up", "platform", "--once", cwd=tmp_path)
    assert broken.returncode == 2
    assert "platform.yaml:2: did not find expected node content" in broken.stderr


def test_check_tells_an_unknown_setting(tmp_path: Path) -> None:
    done = tenantry("check", cwd=tmp_path, TENANTRY_LISTNE="x")
    assert "WRONG settings: TENANTRY_LISTNE: there is no such setting" in done.stdout
    assert done.returncode == 1


def test_check_tells_that_the_state_is_missing_beside_its_engines(tmp_path: Path) -> None:
    (tmp_path / ".tenantry" / "engines" / "an-id").mkdir(parents=True, mode=0o700)
    done = called("check", cwd=tmp_path)
    assert "WRONG state: the state in .tenantry cannot be read: state.db is missing, and .tenantry/engines holds" in done.stdout
    assert done.returncode == 1


@pytest.mark.slow
def test_a_state_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "file").write_text("")
    done = tenantry("up", "platform", "--listen", "127.0.0.1:0", "--state", "file/state", cwd=tmp_path)
    assert (done.stderr, done.returncode) == (f"--state file/state: {tmp_path / 'file'} is not a folder\n", 2)


@pytest.mark.slow
def test_an_engine_runs_alone(tmp_path: Path) -> None:
    with serving("engine", "--data", "data", "--listen", "127.0.0.1:0", cwd=tmp_path) as running:
        password = (tmp_path / "data" / "admin-password").read_text().strip()
        listed = httpx.get(f"{running.url}/api/v1/admin/apps", auth=("admin", password))
        assert (listed.status_code, listed.json()) == (200, {"data": []})
        assert (tmp_path / "data" / "admin-password").stat().st_mode & 0o777 == 0o600
        assert running.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["version", "--version"])
def test_the_release_is_printed_at_once(asked: str, tmp_path: Path) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+-build\.\d+-channel\.(stable|insider)\n", tenantry(asked, cwd=tmp_path).stdout)


def test_a_plan_takes_no_larger_package_than_what_runs(tmp_path: Path) -> None:
    declare(tmp_path)
    allowed = called("plan", "platform", "--state", "here", cwd=tmp_path)
    refused = called("plan", "platform", "--state", "here", cwd=tmp_path, TENANTRY_PACKAGES__MANIFEST="16B")
    assert (allowed.returncode, refused.returncode) == (1, 2), refused.stderr
    assert "spec.source.path: packages/crm/app.yaml" in refused.stderr
