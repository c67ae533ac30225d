"""The page of the OpenAPI description, and the files of others that it uses."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tenantry.rest.docs.api_page import SWAGGER_UI_VERSION, VENDORED, api_page

STATIC = Path(__file__).parents[4] / "operator/tenantry/rest/docs/static"


@pytest.mark.parametrize("name", VENDORED)
def test_a_file_of_others_is_the_published_one(name: str) -> None:
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == VENDORED[name]
    assert SWAGGER_UI_VERSION in name
    assert "Apache License" in (STATIC / "swagger-ui-LICENSE.txt").read_text("utf-8")


def test_every_file_is_ours_or_recorded() -> None:
    assert {path.name for path in STATIC.iterdir()} == {*VENDORED, "api.js", "api.css", "swagger-ui-LICENSE.txt"}


def test_text_of_the_description_stays_text() -> None:
    hostile = "</script><script>alert(1)</script>"
    page = api_page({"info": {"title": hostile, "version": "1"}, "paths": {}}, '/e"><b>')
    assert "<script>" not in page
    assert "<b>" not in page
    (text,) = re.findall(r'id="description">(.*?)</script>', page)
    assert json.loads(text)["info"]["title"] == hostile
    assert json.loads(text)["servers"] == [{"url": '/e"><b>'}]
