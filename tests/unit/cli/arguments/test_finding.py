"""From what people type to the source or the object that they mean."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli.arguments.finding import find, find_environment, followed_source
from tenantry.cli.arguments.sources import located
from tenantry.cli.output.documents import reference_of
from tenantry.cli.output.failing import Failure
from tenantry.kinds.registry import KINDS


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


class Two:
    """A console with an object of the name `dev` in two namespaces, and one of the name `only`."""

    async def list(self, kind: str) -> list[dict[str, Any]]:
        places = (("tenant-a", "dev"), ("tenant-b", "dev"), ("tenant-b", "only"))
        return [{"kind": kind, "metadata": {"namespace": namespace, "name": name}} for namespace, name in places]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Operation"}))
async def test_what_is_printed_as_a_name_is_taken_for_that_object(kind: str) -> None:
    """`-o name` goes into other commands, and a name may be there in several namespaces."""
    console: Any = Two()
    for document in await console.list(kind):
        assert (await find(console, reference_of(document)))[1] == document


@pytest.mark.parametrize("typed", ["tenant-b/dev", "env/tenant-b/dev", "Environment/tenant-b/dev", "tenv/only", "only"])
async def test_a_command_about_environments_takes_them_as_messages_name_them(typed: str) -> None:
    console: Any = Two()
    assert (await find_environment(console, typed))["metadata"]["namespace"] == "tenant-b"


@pytest.mark.parametrize(
    ("typed", "namespace", "told"),
    [
        pytest.param("env/tenant-a/dev", "tenant-b", "in namespace tenant-a, and -n names tenant-b", id="two namespaces"),
        pytest.param("env/only", "tenant-a", "there is one in namespace tenant-b", id="of another namespace"),
        pytest.param("env/onyl", "", "did you mean only", id="misspelt"),
    ],
)
async def test_another_object_than_meant_is_never_taken(typed: str, namespace: str, told: str) -> None:
    console: Any = Two()
    with pytest.raises(Failure, match=told):
        await find(console, typed, namespace)


@pytest.mark.parametrize(
    "source", ["https://example.com/acme/platform", "git@example.com:acme/platform.git", "ssh://git@example.com/a"]
)
def test_a_repository_without_its_beginning_is_told_it(source: str) -> None:
    with pytest.raises(Failure, match="begins with git"):
        located(source)
