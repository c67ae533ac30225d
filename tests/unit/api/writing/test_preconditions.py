"""If-Match, Idempotency-Key, slugs and what a source declares: what a write is refused for."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from tenantry.api.writing.preconditions import check_match, marks_of
from tenantry.api.writing.writes import check_slug, refuse_declared
from tenantry.model.resource import SOURCE, SOURCE_FILE
from tenantry.model.verdicts import Conflict, Invalid

SECRET = b"a key"


def request(method: str = "POST", path: str = "/things", query: bytes = b"", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": raw, "server": ("platform", 80)}
    return Request(scope)


def document(**metadata: Any) -> dict[str, Any]:
    return {"kind": "Environment", "metadata": {"name": "dev", "generation": 3, **metadata}, "spec": {}}


@pytest.mark.parametrize("tag", ['"3.abc"', '"3"', 'W/"3.abc"', '"2.x", "3.y"', "*"])
def test_an_etag_of_the_same_generation_lets_the_write_pass(tag: str) -> None:
    check_match(request(if_match=tag), document())


@pytest.mark.parametrize("tag", ['"2.abc"', '"33.abc"', "3.abc", "nonsense", '""', ""])
def test_any_other_etag_refuses_the_write(tag: str) -> None:
    with pytest.raises(Conflict):
        check_match(request(if_match=tag), document())


def test_the_marks_of_a_request_differ_by_caller_key_body_and_place() -> None:
    def marks(subject: str = "eve", tenant: str = "", body: bytes = b"{}", **changes: Any) -> Any:
        return marks_of(request(**{"idempotency_key": "k", **changes}), (subject, tenant), body, SECRET)

    base = marks()
    assert marks() == base
    assert marks(subject="bob").key != base.key
    assert marks(tenant="another of the name").key != base.key
    assert marks(idempotency_key="l").key != base.key
    assert marks(body=b"{ }").key == base.key
    assert marks(body=b"{ }").body != base.body
    assert marks(path="/others").body != base.body
    assert marks(query=b"tenantId=x").body != base.body


def test_a_body_is_not_known_from_its_mark_without_the_key() -> None:
    one = marks_of(request(idempotency_key="k"), ("eve", ""), b"password", SECRET)
    other = marks_of(request(idempotency_key="k"), ("eve", ""), b"password", b"another key")
    assert one is not None
    assert other is not None
    assert one.body != other.body


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x07"])
def test_an_ill_formed_idempotency_key_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        marks_of(request(idempotency_key=key), ("eve", ""), b"", SECRET)


@pytest.mark.parametrize("slug", ["a", "dev", "a-b", "0", "a" * 30])
def test_good_slugs(slug: str) -> None:
    check_slug(slug)


@pytest.mark.parametrize("slug", ["", "A", "a_b", "-a", "a-", "a--b", "a" * 31, "a\n", "é", "admin", "tenantry", "a b"])
def test_bad_slugs_are_refused_by_the_name_of_their_field(slug: str) -> None:
    with pytest.raises(Invalid, match="slug: "):
        check_slug(slug)


def test_what_a_source_declares_is_refused_naming_its_place() -> None:
    refuse_declared(document())
    with pytest.raises(Invalid, match=r"acme/dev\.yaml:3"):
        refuse_declared(document(labels={SOURCE: "main"}, annotations={SOURCE_FILE: "acme/dev.yaml:3"}))
