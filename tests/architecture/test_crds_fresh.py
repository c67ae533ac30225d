"""The generated files in crds/ are those that the specs give now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.kinds import crds

FOLDER = Path(__file__).parents[2] / "crds"


@pytest.mark.slow
def test_crds_are_what_the_specs_generate(tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in crds.write(tmp_path)}
    stored = {path.name: path.read_text() for path in FOLDER.glob("*.yaml")}

    assert stored == fresh, "run `make crds`: it writes crds/ and the chart's copy"
