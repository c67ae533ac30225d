"""Downloads: names, lengths, tags and ranges."""

from __future__ import annotations

import hashlib

import httpx
import pytest

CONTENT = b"v-000001" + bytes(range(256)) * 5000
TAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'
SIZE = len(CONTENT)
WHOLE = slice(None)


@pytest.fixture
async def stored(client: httpx.AsyncClient) -> httpx.AsyncClient:
    await client.post("/api/v1/admin/apps/upload", files={"file": ("a.tapp", CONTENT)})
    return client


@pytest.mark.parametrize("path", ["download/v-000001", "versions/v-000001/download/app"], ids=["variant A", "variant B"])
async def test_a_download_is_the_file_with_its_name_length_and_tag(stored: httpx.AsyncClient, path: str) -> None:
    answer = await stored.get(f"/api/v1/admin/apps/shop/{path}")
    assert answer.content == CONTENT
    assert answer.headers["content-length"] == str(SIZE)
    assert answer.headers["etag"] == TAG
    assert answer.headers["content-disposition"] == 'attachment; filename="shop-v-000001.tapp"'
    assert answer.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize(
    ("headers", "status", "part"),
    [
        pytest.param({"Range": "bytes=0-9"}, 206, slice(10), id="first bytes"),
        pytest.param({"Range": "bytes=100-"}, 206, slice(100, None), id="from an offset"),
        pytest.param({"Range": "bytes=-10"}, 206, slice(-10, None), id="last bytes"),
        pytest.param({"Range": f"bytes=5-{SIZE * 2}"}, 206, slice(5, None), id="beyond the end"),
        pytest.param({"Range": f"bytes=-{SIZE * 2}"}, 206, WHOLE, id="more than there is"),
        pytest.param({"Range": "bytes=0-9", "If-Range": TAG}, 206, slice(10), id="unchanged"),
        pytest.param({"Range": "bytes=0-9", "If-Range": '"other"'}, 200, WHOLE, id="changed meanwhile"),
        pytest.param({"Range": "bytes=0-1,5-6"}, 200, WHOLE, id="several ranges"),
        pytest.param({"Range": "lines=1-2"}, 200, WHOLE, id="another unit"),
        pytest.param({"Range": "bytes=-"}, 200, WHOLE, id="no bound"),
        pytest.param({"If-None-Match": TAG}, 304, slice(0), id="held already"),
        pytest.param({"If-None-Match": '"other"'}, 200, WHOLE, id="another held"),
    ],
)
async def test_ranges(stored: httpx.AsyncClient, headers: dict[str, str], status: int, part: slice) -> None:
    expected = CONTENT[part]
    answer = await stored.get("/api/v1/admin/apps/shop/download/v-000001", headers=headers)
    assert (answer.status_code, answer.content) == (status, expected)
    if status == 206:
        assert answer.headers["content-length"] == str(len(expected))
        assert answer.headers["content-range"].endswith(f"/{SIZE}")


@pytest.mark.parametrize("value", [f"bytes={SIZE}-", "bytes=9-5", "bytes=-0"])
async def test_a_range_outside_the_file_is_416(stored: httpx.AsyncClient, value: str) -> None:
    answer = await stored.get("/api/v1/admin/apps/shop/download/v-000001", headers={"Range": value})
    assert (answer.status_code, answer.json()) == (416, {"error": "Range: outside the file"})
    assert answer.headers["content-range"] == f"bytes */{SIZE}"
