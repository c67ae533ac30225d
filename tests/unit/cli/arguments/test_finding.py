"""From what people type to the source or the object that they mean."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli.arguments.finding import followed_source


class Declared:
    """A console that knows one Source."""

    async def list(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "Source"
        return [{"metadata": {"name": "platform", "namespace": "tenantry-system"}}]


@pytest.mark.parametrize(
    ("typed", "namespace", "followed"),
    [
        pytest.param("source/default", "", "default", id="the source of up"),
        pytest.param("src/other", "", "other", id="the source of up under another name"),
        pytest.param("sources", "", "default", id="no name"),
        pytest.param("source/platform", "", "", id="a Source"),
        pytest.param("source/tenantry-system/platform", "", "", id="a Source with its namespace"),
        pytest.param("source/default", "tenant-acme", "", id="a namespace: only objects have one"),
        pytest.param("tenant/acme", "", "", id="another kind"),
    ],
)
async def test_a_source_that_no_object_declares_is_the_one_that_up_follows(typed: str, namespace: str, followed: str) -> None:
    console: Any = Declared()
    assert await followed_source(console, typed, namespace) == followed
