"""The name of a caller never becomes another line, another person, or another trailer of a commit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.model.redeclaring import Edit
from tenantry.model.resource import Ref
from tenantry.runtime.sources.commit_message import action_of, author_of, message_of

DEV = Ref("Environment", "tenant-acme", "dev")


def document(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


@pytest.mark.parametrize(
    ("username", "author"),
    [
        ("ada", "ada <ada@tenantry.invalid>"),
        ("ada@example.com", "ada@example.com <ada@example.com>"),
        ("Ada Lovelace", "Ada Lovelace <Ada-Lovelace@tenantry.invalid>"),
        ("Ada <evil@example.com>", "Ada evil@example.com <Ada-evil-example.com@tenantry.invalid>"),
        ("ada\nauthor Eve <eve@x> 1 +0000", "ada author Eve eve@x 1 +0000 <ada-author-Eve-eve-x-1-+0000@tenantry.invalid>"),
        ("Žofie", "Žofie <ofie@tenantry.invalid>"),
        ("日本", "日本 <unknown@tenantry.invalid>"),
        ("", "unknown <unknown@tenantry.invalid>"),
        ("<>.,", "unknown <unknown@tenantry.invalid>"),
        ("\u202eeve", "eve <eve@tenantry.invalid>"),
    ],
)
def test_an_author_is_one_name_and_one_address(username: str, author: str) -> None:
    assert author_of(username) == author


@given(st.text(max_size=300))
def test_whatever_a_caller_is_called_it_is_one_line_of_one_author(username: str) -> None:
    author = author_of(username)
    assert re.fullmatch(r"[^<>\n\r\0]+ <[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+>", author) and len(author) < 400
    message = message_of(Edit(DEV, document(a=username), document(a="")), (), username, "r" * 32)
    assert message.splitlines()[0] == "Update environment tenant-acme/dev"
    assert [line.partition(":")[0] for line in message.rsplit("\n\n", 1)[1].splitlines()] == [
        "Operation",
        "Object",
        "Requested-by",
        "Request-id",
    ]


@pytest.mark.parametrize(
    ("kind", "before", "after", "action"),
    [
        ("Environment", None, document(), "CREATE_ENVIRONMENT"),
        ("Environment", document(), None, "DELETE_ENVIRONMENT"),
        ("Environment", document(), document(slug="a"), "UPDATE_ENVIRONMENT"),
        ("App", None, document(version="1.0.0"), "INSTALL_APP"),
        ("App", None, document(keep=["1.0.0"]), "UPLOAD_APP"),
        ("App", document(version="1.0.0"), document(keep=["1.0.0"]), "UNINSTALL_APP"),
        ("App", document(keep=["1.0.0"]), document(keep=[]), "DELETE_APP_VERSION"),
        ("IdentityProvider", None, document(), "APPLY_IDENTITY_PROVIDER"),
        ("Identity", document(), None, "DELETE_IDENTITY"),
    ],
)
def test_the_action_is_that_of_the_operation(kind: str, before: Any, after: Any, action: str) -> None:
    assert action_of(Edit(Ref(kind, "tenant-acme", "x"), before, after)) == action


def test_a_message_tells_what_changes_and_what_goes_along() -> None:
    edit = Edit(DEV, document(displayName="Dev", slug="dev"), document(displayName="Development", slug="dev"))
    assert message_of(edit, (), "ada", "0123") == (
        "Update environment tenant-acme/dev\n\n"
        'spec.displayName: "Dev" -> "Development"\n\n'
        "Operation: UPDATE_ENVIRONMENT\nObject: Environment/tenant-acme/dev\nRequested-by: ada\nRequest-id: 0123\n"
    )
    many = Edit(DEV, document(**{f"f{n:02}": 1 for n in range(30)}), document())
    assert "and 10 fields more" in message_of(many, (), "ada", "0")
    gone = message_of(Edit(DEV, document(), None), (Ref("App", "tenant-acme", "dev.crm"),), "ada", "0")
    assert "- App/tenant-acme/dev.crm" in gone
