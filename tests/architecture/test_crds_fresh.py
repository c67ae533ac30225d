"""The generated files in crds/ are those that the specs give now."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tenantry.kinds import crds

FOLDER = Path(__file__).parents[2] / "crds"


@pytest.mark.slow
def test_crds_are_what_the_specs_generate(tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in crds.write(tmp_path)}
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}

    assert stored == fresh, "run `make crds`: it writes crds/ and the chart's copy"


def test_no_definition_needs_a_webhook_to_convert_what_is_stored() -> None:
    definitions = {path.name: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}
    assert definitions
    converting = {name: spec["conversion"] for name, each in definitions.items() if "conversion" in (spec := each["spec"])}
    assert [name for name, conversion in converting.items() if conversion["strategy"] != "None"] == []
