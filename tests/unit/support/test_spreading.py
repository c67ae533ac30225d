"""Tests that share a control plane run on one worker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.spreading import ALONE, ByModule


@pytest.mark.parametrize(
    ("test", "scope"),
    {
        "tests/cluster/test_tenancy.py::test_a[row::1]": "tests/cluster/test_tenancy.py",
        "tests/cluster/test_tenancy.py::TestA::test_b": "tests/cluster/test_tenancy.py",
        "tests/cluster/test_store.py::test_a": "tests/cluster/test_store.py::test_a",
    }.items(),
)
def test_a_module_is_one_scope_unless_its_tests_need_the_workers_control_plane_alone(test: str, scope: str) -> None:
    assert cast(Any, ByModule)._split_scope(None, test) == scope


@pytest.mark.slow
@pytest.mark.cluster
def test_no_module_of_single_tests_starts_a_control_plane(request: pytest.FixtureRequest) -> None:
    single = [each for each in request.session.items if isinstance(each, pytest.Function) and each.path.name in ALONE]
    assert [each.nodeid for each in single if {"own", "host"} & set(each.fixturenames)] == []
