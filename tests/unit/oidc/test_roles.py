"""The roles of apps that a claim of a token gives to its user; its other contents are ignored."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.oidc.roles import MOST, roles_of

CLAIMS: dict[str, tuple[Any, dict[str, str]]] = {
    "a list": (["crm:editor", "shop:reader"], {"crm": "editor", "shop": "reader"}),
    "one text": ("crm:editor", {"crm": "editor"}),
    "an object": ({"crm": "editor"}, {"crm": "editor"}),
    "the first of two": (["crm:reader", "crm:editor"], {"crm": "reader"}),
    "groups of others": (["everyone", "crm", "a:b:c", ":", "crm:", ":editor", "CRM:editor", "crm:ed itor"], {}),
    "among groups of others": (["everyone", "crm:editor"], {"crm": "editor"}),
    "numbers": ([1, None, ["crm:editor"], {"crm": "editor"}], {}),
    "an object of lists": ({"crm": ["editor"]}, {}),
    "a number": (1, {}),
    "nothing": (None, {}),
    "a line end": (["crm:editor\n"], {}),
}


@pytest.mark.parametrize(("value", "roles"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_gives_roles(value: Any, roles: dict[str, str]) -> None:
    assert roles_of({"roles": value}, "roles") == roles


PATHS: dict[str, tuple[dict[str, Any], str]] = {
    "a name": ({"roles": "crm:editor"}, "roles"),
    "a path": ({"realm_access": {"roles": ["crm:editor"]}}, "realm_access.roles"),
    "a URL, which has dots": ({"https://example.com/roles": ["crm:editor"]}, "https://example.com/roles"),
}


@pytest.mark.parametrize(("claims", "claim"), PATHS.values(), ids=PATHS)
def test_a_claim_is_named_or_found_by_its_path(claims: dict[str, Any], claim: str) -> None:
    assert roles_of(claims, claim) == {"crm": "editor"}


@pytest.mark.parametrize("claim", ["", "absent", "roles.deep", "sub"])
def test_no_claim_gives_no_role(claim: str) -> None:
    assert roles_of({"roles": ["crm:editor"], "sub": "ada", "x": None}, claim) == {}


def test_an_endless_claim_gives_a_hundred() -> None:
    assert len(roles_of({"roles": [f"app{n}:editor" for n in range(10_000)]}, "roles")) == MOST
