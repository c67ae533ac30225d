"""Bytes of a declared place are stored once they are what was declared; whatever the host does, nothing else is, nor stays."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.blobs_http import RemoteBlobs
from tenantry.adapters.fetching.downloads import Downloads
from tenantry.adapters.fetching.fetcher import FetchLimits, PackageFetcher
from tenantry.adapters.fetching.room import Room
from tenantry.model.facts import PackageFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt
from tenantry.rest.outbound import Rules
from tests.scenario.package_host import Answer, PackageHost, cut, endless, held, redirect, whole
from tests.scenario.serving import serving
from tests.support.fetching import CRM, FILE, LARGEST, LOOPBACK, Fetched, fetching
from tests.support.patience import DEADLINE_S
from tests.support.served_packages import BYTES, SHA256, check, served
from tests.support.waiting import eventually

BAD = b"bad: it is no package"


@pytest.fixture
async def fetched(tmp_path: Path) -> AsyncIterator[Fetched]:
    async with fetching(tmp_path) as fetched:
        yield fetched


async def test_a_file_is_stored_for_the_tenant_that_declares_it(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [whole(BYTES)]
    assert await fetched.comes_to() == "Stored"
    assert (await fetched.folder.fetch("acme", SHA256)).read_bytes() == BYTES
    assert await fetched.folder.inspect("umbra", SHA256) is None
    assert fetched.left == []


HOSTILE: dict[str, tuple[Answer, str]] = {
    "other bytes": (whole(b"something else"), "Stalled PackageDiffers"),
    "an empty file": (whole(b""), "Stalled PackageDiffers"),
    "the length of too much, and no more": (held(b"x" * (LARGEST + 1), asyncio.Event()), "Stalled PackageRefused"),
    "no end": (endless(b"x" * 4096), "Stalled PackageRefused"),
    "half, and a closed connection": (cut(BYTES), "Transient FetchFailed"),
    "no such file": (whole(b"not here", 404), "Transient FetchFailed"),
    "a bad day": (whole(b"ouch", 500), "Transient FetchFailed"),
    "a password prompt": (whole(b"who?", 401, {"WWW-Authenticate": "Basic"}), "Transient FetchFailed"),
    "a part": (whole(BYTES, 206), "Transient FetchFailed"),
    "compressed bytes": (whole(BYTES, 200, {"Content-Encoding": "gzip"}), "Transient FetchFailed"),
    "a redirect to nowhere": (redirect("http://:0"), "Stalled FetchRefused"),
    "a redirect to itself": (redirect(FILE), "Transient FetchFailed"),
    "a redirect to the machine's metadata": (redirect("http://169.254.169.254/latest"), "Stalled FetchRefused"),
    "a redirect to a private network": (redirect("http://10.0.0.1/x"), "Stalled FetchRefused"),
    "a redirect to a file": (redirect("file:///etc/passwd"), "Stalled FetchRefused"),
    "a redirect with a password": (redirect("http://a:b@127.0.0.1/x"), "Stalled FetchRefused"),
}


@pytest.mark.parametrize(("answer", "expected"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_host_that_answers(fetched: Fetched, answer: Answer, expected: str) -> None:
    fetched.host.answers[FILE] = [answer]
    assert await fetched.comes_to() == expected
    assert fetched.left == []
    assert len(fetched.host.asked) <= 6


async def test_a_hostile_package_is_refused_as_an_upload_is(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [whole(BAD)]
    assert await fetched.comes_to(sha256=hashlib.sha256(BAD).hexdigest()) == "Stalled PackageRefused"
    assert fetched.told == "app.yaml: is missing"
    assert fetched.left == []


async def test_other_bytes_are_told_by_their_sha256(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [whole(b"something else")]
    await fetched.comes_to()
    assert hashlib.sha256(b"something else").hexdigest() in fetched.told


async def test_bytes_that_drip_are_given_up_in_time(tmp_path: Path) -> None:
    async with fetching(tmp_path, time_s=0.3) as fetched:
        fetched.host.answers[FILE] = [endless(b"x", pause=0.02)]
        assert await fetched.comes_to() == "Transient FetchFailed"
        assert fetched.told == "it takes longer than 0.3 s"
        assert fetched.left == []


@pytest.mark.parametrize("first", [whole(b"ouch", 500), cut(BYTES), whole(b"not yet", 404)], ids=["500", "cut", "404"])
async def test_what_failed_in_passing_is_fetched_the_next_time(fetched: Fetched, first: Answer) -> None:
    fetched.host.answers[FILE] = [first, whole(BYTES)]
    assert await fetched.comes_to() == "Transient FetchFailed"
    assert await fetched.comes_to() == "Stored"


async def test_redirects_are_followed_without_cookies(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [whole(b"", 302, {"Location": "/b", "Set-Cookie": "who=me; Path=/"})]
    fetched.host.answers["/b"] = [redirect("c?signed=1", 307)]
    fetched.host.answers["/c"] = [whole(BYTES)]
    assert await fetched.comes_to() == "Stored"
    assert fetched.host.paths == [FILE, "/b", "/c"]
    assert not any({"cookie", "authorization"} & set(headers) for _, headers in fetched.host.asked)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/crm.tapp",
        "https://127.0.0.1/crm.tapp",
        "https://[::1]/x",
        "https://10.0.0.1/x",
        "https://a:b@example.com/x",
    ],
)
async def test_a_closed_url_is_refused_before_anybody_is_asked(tmp_path: Path, url: str) -> None:
    async with fetching(tmp_path, Rules()) as fetched:
        assert await fetched.comes_to(url) == "Stalled FetchRefused"
        assert "spec.source.url" in fetched.told


async def test_a_name_that_leads_to_this_machine_is_refused(tmp_path: Path) -> None:
    async with fetching(tmp_path, Rules(http=True)) as fetched:
        assert await fetched.comes_to(f"{fetched.url.replace('127.0.0.1', 'localhost')}{FILE}") == "Stalled FetchRefused"
        assert fetched.host.asked == []


async def test_a_fetch_under_way_is_not_begun_twice(fetched: Fetched) -> None:
    goes_on = asyncio.Event()
    fetched.host.answers[FILE] = [held(BYTES, goes_on)]
    await fetched.begin()
    await eventually(lambda: fetched.host.paths == [FILE])
    await fetched.begin()
    goes_on.set()
    assert await fetched.over() == CRM
    assert fetched.host.paths == [FILE]
    assert await fetched.folder.inspect("acme", SHA256) is not None


async def test_a_place_that_is_declared_anew_is_asked_instead(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [held(BYTES, asyncio.Event())]
    fetched.host.answers["/other"] = [whole(BYTES)]
    await fetched.begin()
    await eventually(lambda: fetched.host.paths == [FILE])
    assert await fetched.comes_to(f"{fetched.url}/other") == "Stored"


async def test_a_cancelled_fetch_leaves_nothing(fetched: Fetched) -> None:
    fetched.host.answers[FILE] = [held(BYTES, asyncio.Event())]
    await fetched.begin()
    await eventually(lambda: fetched.host.paths == [FILE] and fetched.left != [])
    await fetched.fetcher.cancel("umbra", SHA256)
    assert fetched.left != []
    await fetched.fetcher.cancel("acme", SHA256)
    assert fetched.left == []
    assert await fetched.folder.inspect("acme", SHA256) is None


async def test_who_cancels_goes_on_once_nothing_is_stored_any_more(tmp_path: Path) -> None:
    checking, goes_on = threading.Event(), threading.Event()

    def slow_check(path: Path) -> PackageFacts:
        checking.set()
        assert goes_on.wait(DEADLINE_S)
        return check(path)

    async with fetching(tmp_path, check=slow_check) as fetched:
        fetched.host.answers[FILE] = [whole(BYTES)]
        await fetched.begin()
        await eventually(checking.is_set)
        cancelling = asyncio.create_task(fetched.fetcher.cancel("acme", SHA256))
        assert (await asyncio.wait([cancelling], timeout=0.05))[0] == set()
        goes_on.set()
        await cancelling
        assert fetched.left == []
        await fetched.folder.remove("acme", SHA256)
        assert await fetched.folder.inspect("acme", SHA256) is None


def test_packages_on_their_way_take_only_so_much_disk_and_one_tenant_s_only_half() -> None:
    room = Room(100)
    with room.part("umbra") as umbras, room.part("umbra") as more, room.part("acme") as acmes, room.part("third") as thirds:
        umbras(50)
        with pytest.raises(Halt, match="no room"):
            more(1)
        acmes(50)
        with pytest.raises(Halt, match="no room"):
            thirds(1)
    with room.part("third") as thirds:
        thirds(50)


async def test_a_fetch_without_room_is_made_once_there_is_some(tmp_path: Path) -> None:
    checking, goes_on = threading.Event(), threading.Event()

    def slow_check(path: Path) -> PackageFacts:
        if path.stat().st_size == LARGEST:
            checking.set()
            assert goes_on.wait(DEADLINE_S)
        return check(path)

    big = b"x" * LARGEST
    async with fetching(tmp_path, check=slow_check, at_once=8) as fetched:
        fetched.host.answers["/big"], fetched.host.answers[FILE] = [whole(big)], [whole(BYTES)]
        other = Ref("Package", "tenant-acme", "big")
        await fetched.begin(f"{fetched.url}/big", other, sha256=hashlib.sha256(big).hexdigest())
        await eventually(checking.is_set)
        assert await fetched.comes_to() == "Transient FetchFailed"
        assert "no room" in fetched.told
        goes_on.set()
        assert await fetched.over() == other
        assert await fetched.comes_to() == "Stored"


async def test_what_the_operator_of_a_cluster_fetches_the_api_checks_and_keeps(tmp_path: Path) -> None:
    app, keys = served(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    remote, host = RemoteBlobs("http://api", keys, scratch, httpx.ASGITransport(app=app)), PackageHost()
    ended: asyncio.Queue[Ref] = asyncio.Queue()
    fetcher = PackageFetcher(remote, scratch, Downloads(LOOPBACK), FetchLimits(LARGEST, 10.0, at_once=4), ended.put_nowait)
    async with serving(host.http) as url, asyncio.timeout(DEADLINE_S):
        host.answers["/good"], host.answers["/bad"] = [whole(BYTES)], [whole(BAD)]
        await fetcher.begin(CRM, "acme", SHA256, f"{url}/good")
        await ended.get()
        assert await remote.inspect("acme", SHA256) is not None
        bad = ("acme", hashlib.sha256(BAD).hexdigest(), f"{url}/bad")
        await fetcher.begin(CRM, *bad)
        await ended.get()
        with pytest.raises(Halt, match="PackageRefused"):
            await fetcher.begin(CRM, *bad)
    assert list(scratch.iterdir()) == []
    await fetcher.aclose()
    await remote.aclose()


async def test_a_tenant_whose_hosts_are_slow_holds_up_no_other(fetched: Fetched) -> None:
    fetched.host.answers["/slow"] = [held(BYTES, asyncio.Event())]
    fetched.host.answers[FILE] = [whole(BYTES)]
    for number in range(10):
        await fetched.begin(f"{fetched.url}/slow", Ref("Package", "tenant-umbra", f"slow-{number}"), "umbra")
    await eventually(lambda: "/slow" in fetched.host.paths)
    assert await fetched.comes_to() == "Stored"
    assert fetched.host.paths.count("/slow") == 1
