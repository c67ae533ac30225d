"""The condition Drifted: set, kept and removed."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.model.resource import DRIFTED
from tenantry.model.verdicts import Ready, Transient, Verdict
from tenantry.runtime.reconcile.summary import summarise
from tests.unit.kinds.factories import NOW, app, telling

DOWN = Transient("Timeout", "m")


def before(generation: int = 1) -> Any:
    told = {"type": DRIFTED, "status": "True", "reason": "EngineDiffers", "observedGeneration": generation, "message": "before"}
    return telling(app(ready=True), conditions=[told])


@pytest.mark.parametrize(
    ("resource", "verdict", "drift", "told"),
    [
        pytest.param(app(), Ready(), None, None, id="not where differences are corrected"),
        pytest.param(app(), Ready(), (), "False ", id="False while all is as declared"),
        pytest.param(app(), Ready(), ("a", "b"), "True a; b", id="True with all that differs"),
        pytest.param(before(), DOWN, None, "True before", id="kept by a pass that could not look"),
        pytest.param(before(0), DOWN, None, None, id="not kept over an edit"),
        pytest.param(before(), Ready(), (), "False ", id="False once it is mended"),
        pytest.param(before(), Ready(), None, None, id="gone with the policy"),
    ],
)
def test_drifted_is(resource: Any, verdict: Verdict, drift: tuple[str, ...] | None, told: str | None) -> None:
    written = summarise(resource, resource.status, verdict, None, NOW, drift)
    found = [f"{one['status']} {one.get('message', '')}" for one in written["conditions"] if one["type"] == DRIFTED]
    assert found == ([] if told is None else [told])
    ready = next(one for one in written["conditions"] if one["type"] == "Ready")
    assert ready["status"] == ("True" if isinstance(verdict, Ready) else "False")
