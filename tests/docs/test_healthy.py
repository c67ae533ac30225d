"""Commands of docs/healthy.md and of alerts run on a platform. tests/cluster/test_runbooks.py runs those of kubectl."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tenantry.kinds.registry import KINDS
from tests.scenario.cli import called, serving, until
from tests.scenario.health.alert_world import API, USED
from tests.support.prometheus import ALERTS
from tests.support.runbooks import commands_of

REGION = f"{API}kind: Region\nmetadata: {{name: eu}}\nspec: {{}}\n"
TENANT = f"{API}kind: Tenant\nmetadata: {{name: acme}}\nspec: {{displayName: Acme}}\n"
SOURCE = f"{API}kind: Source\nmetadata: {{name: away, namespace: tenantry-system}}\nspec: {{url: 'file:///nowhere/x.git'}}\n"
ABOUT = {"source": ("away", "tenantry-system"), "region": ("eu", ""), "environment": ("dev", "tenant-acme")}
"""An object of each kind that a command may be about."""
DECLARED = "---\n".join((REGION, TENANT, USED, SOURCE))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A platform with an environment that has a database, and a Source that cannot be read."""
    folder = tmp_path_factory.mktemp("platform")
    (folder / "source").mkdir()
    (folder / "source" / "platform.yaml").write_text(DECLARED)
    with serving("up", "source", "--listen", "127.0.0.1:0", cwd=folder):
        until(lambda: "True" in called("get", "identity", "ann", "-n", "tenant-acme", cwd=folder).stdout)
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize(("section", "command"), commands_of("tenantry"))
def test_a_command_of_the_runbooks_runs(section: str, command: str, platform: Path) -> None:
    kind = next((kind for kind in ABOUT if kind in command), "environment")
    name, namespace = ABOUT[kind]
    operation = called("operations", "-o", "name", cwd=platform).stdout.split()[0].rpartition("/")[2]
    filled = command.replace("NAMESPACE", namespace).replace("NAME", name).replace("OPERATION", operation)
    done = called(*shlex.split(filled)[1:], cwd=platform)
    wrong = 1 if command == "tenantry doctor" else 0
    assert done.returncode == wrong, f"{section}: {filled}: {done.stderr}"
    assert done.stdout or done.stderr.startswith("none of the"), f"{section}: {filled}: {done.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_command_of_an_alert_runs_for_each_kind(kind: str, platform: Path) -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    (command,) = [each for rule in rules for each in re.findall(r"`(tenantry [^`]+)`", rule["annotations"]["summary"])]
    done = called(*shlex.split(command.replace("{{ $labels.kind }}", kind))[1:], cwd=platform)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_each_section_has_a_command() -> None:
    sections = {section for tool in ("tenantry", "kubectl") for section, _ in commands_of(tool)}
    assert len(sections) == 17
