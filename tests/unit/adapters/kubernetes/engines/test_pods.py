"""The chart's settings for the pods of engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenantry.adapters.kubernetes.engines.pods import SIZES, EnginePods, parse_engine_pods
from tenantry.model.verdicts import Invalid


def parsed(**body: Any) -> EnginePods:
    return parse_engine_pods(json.dumps(body))


def test_nothing_said_is_the_default() -> None:
    assert parsed() == EnginePods()
    assert EnginePods().resources("") == SIZES["small"]


def test_a_size_is_added_and_the_others_stay() -> None:
    tiny = {"requests": {"cpu": "5m", "memory": "96Mi"}}
    assert parsed(sizes={"tiny": tiny}).sizes == {**SIZES, "tiny": tiny}


NARROW = {"tiny": {"limits": {"cpu": "0.25"}}, "odd": {"limits": {"cpu": "15m"}}, "free": {"requests": {"memory": "96Mi"}}}


@pytest.mark.parametrize(
    ("size", "percent", "part"),
    [
        ("", 70, "700m"),
        ("small", 100, "1"),
        ("medium", 70, "700m"),
        ("large", 50, "500m"),
        ("tiny", 70, "175m"),
        ("odd", 1, "1m"),
        ("free", 70, "700m"),
    ],
)
def test_a_part_of_the_cpu_of_a_pod_is_of_its_limit_and_of_one_core_at_most(size: str, percent: int, part: str) -> None:
    assert parsed(sizes=NARROW).cpu_of(size, percent) == part


@pytest.mark.parametrize(
    ("what", "given", "written"),
    [
        ("cpu", "1000m", "1"),
        ("cpu", "0.5", "500m"),
        ("cpu", "0.005", "5m"),
        ("cpu", 2, "2"),
        ("cpu", "0", "0"),
        ("memory", "1024Mi", "1Gi"),
        ("memory", "1536Mi", "1536Mi"),
        ("memory", "0Mi", "0"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_writes_it(what: str, given: Any, written: str) -> None:
    found = parsed(sizes={"tiny": {"requests": {what: given}}}).resources("tiny")
    assert found["requests"] == {what: written}


@pytest.mark.parametrize(
    ("what", "given"), [("cpu", "much"), ("cpu", "0.0001"), ("cpu", "-1"), ("memory", "1G"), ("memory", "Mi")]
)
def test_a_quantity_that_is_none_names_its_field(what: str, given: str) -> None:
    with pytest.raises(Invalid, match=f"engines.sizes.small.limits.{what}: "):
        parsed(sizes={"small": {"limits": {what: given}}})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sizes": []}', '{"env": 1}'])
def test_what_the_chart_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="engines: is not what the chart writes"):
        parse_engine_pods(text)
