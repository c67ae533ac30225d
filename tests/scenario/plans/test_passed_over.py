"""A plan of a source says how many documents of other groups were passed over, whoever makes it and from wherever it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenantry.adapters.sources.git.url import source_of
from tenantry.rest.plan_bundle import MEDIA_TYPE
from tests.scenario.cli import called
from tests.scenario.repositories import Remote
from tests.scenario.rest_world import world_in
from tests.support.saved_plans import bundle_of

REGION = "apiVersion: tenantry.dev/v1alpha1\nkind: Region\nmetadata: {name: eu}\n"
OTHERS = (
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n"
)


@contextmanager
def source_with(others: str, kind: str, folder: Path) -> Iterator[str]:
    """The place of a source, as it is written."""
    if kind == "git":
        remote = Remote.at(folder / "remote")
        remote.commit({"platform.yaml": REGION + others})
        yield remote.url()
        return
    (folder / "src").mkdir()
    (folder / "src" / "platform.yaml").write_text(REGION + others)
    yield str(folder / "src")


@pytest.mark.parametrize("kind", ["folder", "git"])
@pytest.mark.parametrize(("others", "count"), [("", 0), (OTHERS, 2)], ids=["none", "two"])
async def test_a_plan_counts_them_on_the_spot_and_over_rest(tmp_path: Path, kind: str, others: str, count: int) -> None:
    with source_with(others, kind, tmp_path) as source:
        async with world_in(tmp_path / "state") as world:
            on_the_spot = await world.platform.plan_source(source_of(source), "default")
            content = await bundle_of(source, tmp_path / "work")
            answer = await world("root", "POST", "/plans", content=content, headers={"Content-Type": MEDIA_TYPE})
    assert answer.status_code == 200, answer.text
    assert [str(step) for step in on_the_spot.steps] == ["+ Region/eu"]
    assert (on_the_spot.passed_over, answer.json()["passed_over"]) == (count, count)
    assert answer.json()["digest"] == on_the_spot.digest


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "git"])
def test_the_command_says_it_in_each_form(tmp_path: Path, kind: str) -> None:
    with source_with(OTHERS, kind, tmp_path) as source:
        table, saved, markdown, as_json = (
            called("plan", source, "-o", form, cwd=tmp_path) for form in ("table", "plan", "markdown", "json")
        )
    said = "2 documents of other groups passed over\n"
    assert (table.stdout, table.stderr) == ("+ Region/eu\n", f"{said}1 to create, 0 to change, 0 to delete\n")
    assert saved.stderr == table.stderr
    assert "\n2 documents of other groups passed over.\n" in markdown.stdout
    assert json.loads(as_json.stdout)["passed_over"] == 2


def test_the_command_says_nothing_of_a_source_that_holds_only_ours(tmp_path: Path) -> None:
    with source_with("", "folder", tmp_path) as source:
        planned = called("plan", source, cwd=tmp_path)
    assert planned.stderr == "1 to create, 0 to change, 0 to delete\n"


def test_a_source_that_is_refused_has_its_count_too(tmp_path: Path) -> None:
    with source_with(f"{OTHERS}---\napiVersion: tenantry.dev/v1alpha1\nkind: Regoin\n", "folder", tmp_path) as source:
        planned = called("plan", source, "-o", "json", cwd=tmp_path)
    assert planned.returncode == 2
    assert json.loads(planned.stdout)["passed_over"] == 2
