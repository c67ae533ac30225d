"""Lines of a running `up` about what happens: one for each event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from tenantry.hosts.telling import tell_objects
from tenantry.model.resource import Ref, held_of
from tests.scenario.cli import Running, serving, until
from tests.scenario.platforms import MANIFEST, PLATFORM, declare
from tests.support.drift import looked, meddle, platform_of
from tests.support.waiting import eventually

REGION = "---\napiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {{name: r{0}}}\n"
RIVAL = "apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {name: rival}\nspec: {slug: acme}\n"
ACME = Ref("Tenant", "", "acme")
CRM = "---\napiVersion: tenantry.dev/v1alpha1\nkind: Package\nmetadata: {name: crm-1-1-0, namespace: tenant-acme}\n" \
    'spec: {app: crm, version: "1.1.0", source: {path: packages/new}}\n'  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    source = declare(folder)
    (source / "packages" / "new").mkdir()
    (source / "packages" / "new" / "app.yaml").write_text(MANIFEST.replace("1.0.0", "1.1.0"))
    return source


@pytest.fixture(scope="module")
def running(folder: Path, source: Path) -> Iterator[Running]:
    with serving("up", "platform", "--listen", "127.0.0.1:0", "--log-format", "json", cwd=folder) as running:
        yield running


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "stderr").read_text().splitlines()]


def told(folder: Path, event: str, about: str = "", *, often: int = 1) -> str:
    """The message of an event, once it was printed so often."""
    found: list[dict[str, Any]] = []

    def holds() -> bool:
        found[:] = [each for each in lines(folder) if (each["event"], each["object"]) == (event, about)]
        return len(found) >= often

    until(holds)
    return str(found[-1]["message"])


def refused(folder: Path, beginning: str) -> None:
    """Wait until the source was refused with this."""
    until(lambda: any(each["message"].startswith(beginning) for each in lines(folder) if each["event"] == "source refused"))


@pytest.mark.slow
def test_what_became_ready_has_a_line_and_standard_output_is_json_too(running: Running, folder: Path) -> None:
    assert json.loads(running.printed[0]) == {"url": running.url.rstrip('",'), "ready": 6, "objects": 6}
    for about in ("Region/eu", "Tenant/acme", "Environment/tenant-acme/dev", "App/tenant-acme/dev.crm"):
        assert told(folder, "ready", about) == ""


def test_an_upgrade_a_refusal_and_its_cure(running: Running, folder: Path, source: Path) -> None:
    declared = source / "platform.yaml"
    declared.write_text(PLATFORM.replace('crm, version: "1.0.0"}\n', 'crm, version: "1.1.0"}\n') + CRM)
    assert told(folder, "upgraded", "App/tenant-acme/dev.crm") == "1.0.0 to 1.1.0"
    assert told(folder, "ready", "App/tenant-acme/dev.crm", often=2) == ""
    declared.write_text(declared.read_text().replace('version: "1.1.0", source', 'version: "1.1.1", source'))
    refused(folder, "platform.yaml:29: spec.version: is '1.1.1', but the package")
    declared.write_text(PLATFORM.replace('crm, version: "1.0.0"}\n', 'crm, version: "1.1.0"}\n') + CRM)
    assert told(folder, "source is good again") == ""


def test_a_broken_file_and_the_good_one_after_it(running: Running, folder: Path, source: Path) -> None:
    before = sum(each["event"] == "source is good again" for each in lines(folder))
    (source / "more.yaml").write_text("kind: [")
    refused(folder, "more.yaml:2: ")
    (source / "more.yaml").write_text(REGION.format(0))
    told(folder, "ready", "Region/r0")
    told(folder, "source is good again", often=before + 1)


@pytest.mark.slow
def test_what_left_is_pruned_and_too_much_is_held_back(running: Running, folder: Path, source: Path) -> None:
    (source / "more.yaml").write_text(REGION.format(0))
    told(folder, "ready", "Region/r0")
    (source / "more.yaml").write_text("".join(REGION.format(number) for number in range(1, 14)))
    told(folder, "pruned", "Region/r0")
    told(folder, "ready", "Region/r13")
    (source / "more.yaml").unlink()
    assert "`tenantry approve` deletes it" in told(folder, "held back", "Region/r1")
    assert "more objects" in told(folder, "held back")


@pytest.mark.slow
def test_what_becomes_stalled_has_a_line_with_its_reason_and_what_to_do(running: Running, folder: Path, source: Path) -> None:
    (source / "rival.yaml").write_text(RIVAL)
    said = told(folder, "stalled", "Tenant/rival")
    assert said == "SlugTaken: spec.slug: 'acme' is already used by another tenant; choose another"
    assert [each["level"] for each in lines(folder) if each["event"] == "stalled"] == ["warning"]
    (source / "rival.yaml").write_text(RIVAL.replace("slug: acme", "slug: rival"))
    told(folder, "ready", "Tenant/rival")


async def test_repaired_drift_has_a_line(tmp_path: Path) -> None:
    async with platform_of(tmp_path) as platform:
        await meddle(platform)
        with structlog.testing.capture_logs() as logs:
            unlisten = tell_objects(platform.state.cache)
            await looked(platform)
            unlisten()
    repaired = {each["object"] for each in logs if each["event"] == "drift repaired"}
    assert {"App/tenant-acme/dev.crm", "Identity/tenant-acme/ann", "IdentityProvider/tenant-acme/corp"} <= repaired


def with_subject(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """The event with the fields that its line would have now."""
    subject = event.pop("subject", None)
    return {**event, **(subject.fields() if subject is not None else {})}


async def test_what_was_deleted_has_a_line_with_the_operation_that_deleted_it(tmp_path: Path) -> None:
    async with platform_of(tmp_path) as platform:
        cache, store = platform.state.cache, platform.state.store
        with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars, with_subject]) as logs:
            unlisten = tell_objects(cache)
            await store.delete(held_of(await store.get(ACME)))
            await eventually(lambda: cache.document(ACME) is None)
            unlisten()
        actions = {ref.name: entry.document()["spec"]["action"] for ref, entry in cache.entries("Operation")}
    gone = [each for each in logs if each["event"] in ("deleted", "pruned")]
    named = {each["kind"]: actions.get(each.get("operation", "")) for each in gone}
    assert named == {
        "Tenant": "DELETE_TENANT",
        "Environment": "DELETE_ENVIRONMENT",
        "App": "UNINSTALL_APP",
        "Identity": "DELETE_IDENTITY",
        "IdentityProvider": "DELETE_IDENTITY_PROVIDER",
        "Package": None,  # it goes without an Operation
    }


@pytest.mark.slow
def test_a_quiet_one_prints_its_url_and_what_is_wrong(tmp_path: Path) -> None:
    source = declare(tmp_path)
    with serving("up", "platform", "--listen", "127.0.0.1:0", "--quiet", cwd=tmp_path) as running:
        assert running.printed == [running.url]
        assert (tmp_path / "stderr").read_text() == ""
        (source / "platform.yaml").write_text("kind: [")
        until(lambda: "WARNING source refused: platform.yaml:2: " in (tmp_path / "stderr").read_text())
