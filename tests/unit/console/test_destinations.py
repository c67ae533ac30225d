"""After a sign-in the console shows one of its own pages, as a browser reads the address."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from tenantry.console.http.sessions import following

OURS = ("/console/", "/console/objects/tenant-acme?kind=App&x=..", "/console/apps/v1..2")
OTHERS = (
    "/console/../e/acme/dev/",
    "/console/%2e%2e/e/acme/dev/",
    "/console/%2E./e/acme/dev/",
    "/console/./objects",
    "/console/..",
    "/console//evil.example",
    "//evil.example/console/",
    "https://evil.example/console/",
    "/e/acme/dev/",
)


@pytest.mark.parametrize("wanted", [*OURS, *OTHERS])
def test_a_page_of_the_console_follows_a_sign_in(wanted: str) -> None:
    query = urlencode({"next": wanted}).encode()
    request = Request({"type": "http", "method": "GET", "path": "/console/sign-in", "query_string": query, "headers": []})
    assert following(request) == (wanted if wanted in OURS else "/console/")
