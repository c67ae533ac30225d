"""The pages of docs/kinds say what the specs say: fields, defaults, status, reasons; and their YAML is admitted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.sources.read import read
from tenantry.kinds import crds
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Status

DOCS = Path(__file__).parents[2] / "docs"
KINDS = Path(__file__).parents[2] / "operator" / "tenantry" / "kinds"
ADMISSION = Admission()
PAGES = sorted((DOCS / "kinds").glob("*.md"))
OURS = {kind.KIND: kind for kind in crds.KINDS}
REASON = re.compile(r'(?:Stalled|Waiting|Transient)\(\s*"(\w+)"')


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def kind_of(page: Path) -> str:
    return page.stem.replace("-", " ").title().replace(" ", "")


def section_of(page: Path, title: str) -> str:
    """The text below a heading of the second level."""
    _, heading, below = page.read_text("utf-8").partition(f"\n## {title}\n")
    assert heading, f"docs/kinds/{page.name} has no heading `## {title}`; write it, if only to say that there is nothing"
    return below.split("\n## ", 1)[0]


def table_of(page: Path, title: str) -> dict[str, str]:
    """The second cell by each name of the first, of the table in that section."""
    rows = [line.strip("|").split("|") for line in section_of(page, title).splitlines() if line.startswith("| `")]
    return {name: row[1].strip() for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


def fields_of(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each field that a person writes, with its default as the page says it; a reference to a Secret counts as one."""
    for name, field in schema["properties"].items():
        path = f"{prefix}{name}"
        inner, inside = field, f"{path}."
        if field["type"] == "array":
            inner, inside = field["items"], f"{path}[]."
        if inner["type"] == "object" and set(inner["properties"]) != {"name", "key"}:
            yield from fields_of(inner, inside)
        else:
            yield path, _default(field, required=name in schema.get("required", ()) and "[]" not in prefix)


def _default(field: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    value = field.get("default")
    if value is None or isinstance(value, list | dict):
        return ""
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def test_every_kind_has_a_page_and_the_index_names_it() -> None:
    assert {kind_of(page) for page in PAGES} == set(OURS)
    assert {f"kinds/{page.name}" for page in PAGES} <= set(re.findall(r"\]\(([^)]+)\)", (DOCS / "README.md").read_text("utf-8")))


def test_a_page_s_yaml_is_admitted(page: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    documents = [raw.value for block in blocks for raw in read(block.encode())]
    assert kind_of(page) in {document["kind"] for document in documents}
    for document in documents:
        ADMISSION.admit(document, None)


def test_a_page_names_every_field_and_its_default(page: Path) -> None:
    spec = crds.object_schema(OURS[kind_of(page)])["properties"]["spec"]
    told, wanted = table_of(page, "Fields"), dict(fields_of(spec))
    assert set(told) == set(wanted), f"docs/kinds/{page.name}: the table below `## Fields` names other fields than the spec"
    certain = {name: default for name, default in wanted.items() if default}
    assert {name: told[name] for name in certain} == certain


def test_a_page_names_every_field_of_the_status(page: Path) -> None:
    status = TYPES[kind_of(page)].model_fields["status"].annotation
    assert isinstance(status, type)
    assert issubclass(status, Status)
    own = {field.alias for name, field in status.model_fields.items() if name not in Status.model_fields}
    assert set(table_of(page, "Status")) == own


def test_a_page_names_every_reason_that_its_decisions_give(page: Path) -> None:
    decide = KINDS / page.stem.replace("-", "_") / "decide.py"
    if decide.exists():
        assert set(REASON.findall(decide.read_text("utf-8"))) <= set(table_of(page, "Reasons"))
    else:
        assert kind_of(page) == "Operation"


def test_links_lead_somewhere() -> None:
    for document in (DOCS / "README.md", *PAGES):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
