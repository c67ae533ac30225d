"""Packages come out of a registry anonymously, as its challenge asks, and only the very file that was declared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenantry.adapters.fetching.registry import PACKAGE
from tests.scenario.package_host import PackageHost, whole
from tests.scenario.packages.registry import Registry, digest_of
from tests.scenario.serving import serving
from tests.support.fetching import Fetched, fetching
from tests.support.served_packages import BYTES, SHA256

TEAM = "team/crm"


@dataclass
class Pulled:
    """A registry, and a fetcher that pulls from it."""

    registry: Registry
    host: str
    fetched: Fetched

    async def comes_to(self, reference: str = ":1.0.0", repository: str = TEAM) -> str:
        return await self.fetched.comes_to(f"oci://{self.host}/{repository}{reference}")


@pytest.fixture
async def pulled(tmp_path: Path) -> AsyncIterator[Pulled]:
    registry = Registry()
    async with serving(registry.http) as url, fetching(tmp_path) as fetched:
        yield Pulled(registry, url.removeprefix("http://"), fetched)


async def test_a_tag_is_pulled_with_the_token_that_anybody_is_given(pulled: Pulled) -> None:
    pulled.registry.push(TEAM, "1.0.0", BYTES)
    assert await pulled.comes_to() == "Stored"
    assert (await pulled.fetched.folder.fetch("acme", SHA256)).read_bytes() == BYTES
    assert list(pulled.registry.tokens.values()) == [f"repository:{TEAM}:pull"]


async def test_an_open_registry_is_asked_for_no_token(pulled: Pulled) -> None:
    pulled.registry.open = True
    digest = pulled.registry.push(TEAM, "1.0.0", BYTES)
    assert await pulled.comes_to(f"@{digest}") == "Stored"
    assert [path for path, _ in pulled.registry.asked] == [f"/v2/{TEAM}/manifests/{digest}", f"/v2/{TEAM}/blobs/sha256:{SHA256}"]
    assert not any("authorization" in headers for _, headers in pulled.registry.asked)


async def test_blobs_of_another_host_are_taken_there_and_the_token_stays(pulled: Pulled) -> None:
    pulled.registry.push(TEAM, "1.0.0", BYTES)
    elsewhere = PackageHost()
    elsewhere.answers[f"/{digest_of(BYTES)}"] = [whole(BYTES)]
    async with serving(elsewhere.http) as url:
        pulled.registry.blobs_at = url
        assert await pulled.comes_to() == "Stored"
    ((_, headers),) = elsewhere.asked
    assert "authorization" not in headers


def another_file(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", b"another file")


def two_files(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", BYTES, b"another file")


def an_image(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", BYTES, media_type="application/vnd.oci.image.layer.v1.tar+gzip")


def an_index(registry: Registry) -> None:
    registry.manifests[TEAM, "1.0.0"] = b'{"schemaVersion": 2, "manifests": []}'


def no_manifest(registry: Registry) -> None:
    registry.manifests[TEAM, "1.0.0"] = b"<html>"


def a_nested_manifest(registry: Registry) -> None:
    registry.manifests[TEAM, "1.0.0"] = b"[" * 200_000


def a_huge_manifest(registry: Registry) -> None:
    registry.manifests[TEAM, "1.0.0"] = b" " * (4 << 20) + b"{}"


def a_lost_blob(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", BYTES)
    registry.blobs.clear()


def a_changed_blob(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", BYTES)
    registry.blobs[digest_of(BYTES)] = b"changed"


def a_realm_inside(registry: Registry) -> None:
    registry.push(TEAM, "1.0.0", BYTES)
    registry.realm = "http://169.254.169.254/token"


def a_realm_that_is_none(registry: Registry) -> None:
    registry.realm = "http://here.example:port/"


def nothing(registry: Registry) -> None:
    registry.open = True


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        (another_file, "Stalled PackageDiffers"),
        (a_changed_blob, "Stalled PackageDiffers"),
        (two_files, "Stalled PackageRefused"),
        (an_image, "Stalled PackageRefused"),
        (an_index, "Stalled PackageRefused"),
        (no_manifest, "Transient FetchFailed"),
        (a_nested_manifest, "Transient FetchFailed"),
        (a_huge_manifest, "Transient FetchFailed"),
        (a_lost_blob, "Transient FetchFailed"),
        (a_realm_inside, "Stalled FetchRefused"),
        (a_realm_that_is_none, "Transient FetchFailed"),
        (nothing, "Transient FetchFailed"),
    ],
)
async def test_a_registry_that_holds(pulled: Pulled, holds: Callable[[Registry], None], expected: str) -> None:
    holds(pulled.registry)
    assert await pulled.comes_to() == expected
    assert pulled.fetched.left == []


async def test_a_tag_that_was_moved_is_noticed_before_anything_is_downloaded(pulled: Pulled) -> None:
    another_file(pulled.registry)
    assert await pulled.comes_to() == "Stalled PackageDiffers"
    assert not any("/blobs/" in path for path, _ in pulled.registry.asked)


async def test_a_manifest_must_be_the_one_that_was_named(pulled: Pulled) -> None:
    digest = pulled.registry.push(TEAM, "1.0.0", BYTES)
    pulled.registry.manifests[TEAM, digest] += b" "
    assert await pulled.comes_to(f"@{digest}") == "Transient FetchFailed"
    assert "another manifest" in pulled.fetched.told


async def test_an_artifact_of_another_media_type_is_told_which_is_wanted(pulled: Pulled) -> None:
    an_image(pulled.registry)
    await pulled.comes_to()
    assert PACKAGE in pulled.fetched.told


@pytest.mark.parametrize("challenge", ["Basic realm=x", "", 'Bearer service="x"'], ids=["a password", "nothing", "no realm"])
async def test_a_registry_that_wants_anything_but_an_anonymous_token_is_not_given_it(
    fetched_host: Fetched, challenge: str
) -> None:
    host = fetched_host.url.removeprefix("http://")
    fetched_host.host.answers["/v2/crm/manifests/1"] = [whole(b"", 401, {"WWW-Authenticate": challenge})]
    assert await fetched_host.comes_to(f"oci://{host}/crm:1") == "Transient FetchFailed"
    assert "anonymous" in fetched_host.told


@pytest.fixture
async def fetched_host(tmp_path: Path) -> AsyncIterator[Fetched]:
    async with fetching(tmp_path) as fetched:
        yield fetched


async def test_a_registry_of_the_platform_s_own_network_is_refused(fetched_host: Fetched) -> None:
    assert await fetched_host.comes_to("oci://10.0.0.1/crm:1") == "Stalled FetchRefused"
    assert fetched_host.told == "spec.source.oci: 10.0.0.1 is not a public address"
