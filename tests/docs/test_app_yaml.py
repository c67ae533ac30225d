"""The page about app.yaml is what the model says now, and names every field, type and word of it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tenantry.packages.manifest import ColumnType, Grant, Part
from tenantry.packages.parsing import parse_manifest
from tests.docs.app_yaml import EXAMPLE, PAGE, ROOT, SECTIONS, TYPES, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make crds`"


def test_every_part_of_the_model_has_a_section() -> None:
    assert set(SECTIONS.values()) == set(Part.__subclasses__())


@pytest.mark.parametrize("model", SECTIONS.values(), ids=lambda model: model.__name__)
def test_every_field_is_described(model: type[Part]) -> None:
    fields = model.model_json_schema(by_alias=True)["properties"]

    assert [name for name, field in fields.items() if not field.get("description", "").endswith((".", "`."))] == []


def test_every_type_and_grant_is_described() -> None:
    assert TYPES.keys() == set(get_args(ColumnType))
    assert all(f"`{grant}`" in page() for grant in get_args(Grant))


def test_its_example_is_a_manifest() -> None:
    assert parse_manifest(EXAMPLE.read_bytes()).tables


@pytest.mark.parametrize("linking", ["README.md", "docs/README.md", "docs/engine.md", "docs/kinds/package.md"])
def test_it_is_linked(linking: str) -> None:
    target = "docs/app-yaml.md" if linking == "README.md" else "../app-yaml.md" if "kinds" in linking else "app-yaml.md"

    assert f"]({target})" in Path(ROOT, linking).read_text("utf-8")
