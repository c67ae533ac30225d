"""Output in an encoding that lacks characters: escapes, no traceback, and JSON that is read as it was meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
NAMES = {"name": "\u4e2d\u6587 \u00e9 \U0001f600", "box": "\u251c\u2500\u2500"}
POOR = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
}


def run(settings: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    own = {**{key: value for key, value in os.environ.items() if key not in ("LANG", "LC_ALL")}, **settings}
    own["PYTHONPATH"] = str(ROOT / "operator")
    return subprocess.run([sys.executable, *arguments], env=own, capture_output=True, check=False, timeout=120)


PRINTS = {
    "json": f"import json; print(json.dumps({NAMES!a}, ensure_ascii=False))",
    "yaml": f"from tenantry.cli.output.documents import to_yaml, write; write(to_yaml([{NAMES!a}]))",
}
READS: dict[str, Callable[[str], object]] = {"json": json.loads, "yaml": yaml.safe_load}


@pytest.mark.parametrize("settings", POOR.values(), ids=POOR)
@pytest.mark.parametrize("form", PRINTS)
def test_it_is_read_as_it_was_meant(form: str, settings: dict[str, str]) -> None:
    code = f"from tenantry.cli.main import escape_unknown_characters; escape_unknown_characters()\n{PRINTS[form]}"
    done = run(settings, "-c", code)
    assert READS[form](done.stdout.decode("cp1252")) == NAMES, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("settings", POOR.values(), ids=POOR)
def test_a_refusal_that_quotes_such_a_name_is_one_sentence(settings: dict[str, str], tmp_path: Path) -> None:
    document = "apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {name: '\u4e2d\u6587'}\nspec: {}\n"
    (tmp_path / "a.yaml").write_text(document, "utf-8")
    done = run(settings, "-m", "tenantry.cli.main", "validate", str(tmp_path))
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"\\u4e2d\\u6587" in done.stderr + done.stdout
