"""A trace that goes on in the next process, after `up` was ended by SIGKILL in the middle of a migration."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.crash import story
from tests.scenario.cli import COMMAND, called, environment, serving, until
from tests.support.trace_collector import Seen, collecting, of_trace, orphans

_QUIET: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
ROWS = 150_000
"""So many that the install is still under way when it is killed."""
INSTALL = "operation INSTALL_APP"


@pytest.mark.slow
def test_a_trace_goes_on_after_a_sigkill_in_its_middle(tmp_path: Path) -> None:
    source = _declared(tmp_path / "source")
    up = ("up", source, "--listen", "127.0.0.1:0")
    with collecting() as collector:
        first = subprocess.Popen([*COMMAND, *map(str, up)], cwd=tmp_path, env=environment() | collector.variables, **_QUIET)
        try:
            until(lambda: bool(_running(tmp_path)))
            operation = _running(tmp_path)
            trace = operation["status"]["traceparent"].split("-")[1]
            collector.until(lambda spans: "sync" in of_trace(spans, trace))
        finally:
            first.kill()
            first.wait()
        killed_ns = time.time_ns()
        before = of_trace(collector.spans, trace)
        assert INSTALL not in before
        with serving(*up, cwd=tmp_path, **collector.variables):
            spans = collector.until(lambda spans: INSTALL in of_trace(spans, trace))
    found = of_trace(spans, trace)
    [ended] = found[INSTALL]
    assert (ended.attributes["tenantry.operation"], ended.error) == (operation["metadata"]["name"], "")
    assert ended.began_ns < killed_ns < ended.ended_ns
    after = [each for each in spans if each.began_ns > killed_ns]
    assert _names(after, trace) >= {"reconcile App", "apply InstallApp", "engine POST", "migrate", "seed"}
    assert [each for each in orphans(spans, trace) if each in after] == []
    assert ended.parent in {each.span_id for each in before["sync"]}


def _declared(folder: Path) -> Path:
    story.write(folder, "create")
    rows = (json.dumps({"id": number, "name": f"name {number}", "fax": "1"}) for number in range(1, ROWS))
    (folder / "shop-1.0.0" / "seed" / "items.ndjson").write_text("\n".join(rows))
    documents = [story.object_("Region", "eu", "{}"), story.object_("Tenant", "acme", "{displayName: Acme}")]
    documents += [story.package("1.0.0"), *story.environment("acme", "dev", "dev"), story.app("dev", "1.0.0")]
    (folder / "platform.yaml").write_text("---".join(documents))
    return folder


def _running(state: Path) -> dict[str, Any]:
    """Return the install once it is RUNNING."""
    listed = called("operations", "--action", "INSTALL_APP", "--status", "RUNNING", "-o", "json", cwd=state)
    found: list[dict[str, Any]] = json.loads(listed.stdout) if listed.returncode == 0 else []
    return found[0] if found else {}


def _names(spans: list[Seen], trace: str) -> set[str]:
    return set(of_trace(spans, trace))
