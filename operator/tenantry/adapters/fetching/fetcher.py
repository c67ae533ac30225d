"""Package bytes from a URL or a registry: a few at once, beside the passes, checked as an upload is."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from tenantry.adapters.fetching.downloads import CHUNK, Blob, Downloads, failed
from tenantry.adapters.fetching.room import Room
from tenantry.model.quotas import QuotaReached
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Halt, Invalid, Stalled
from tenantry.ports import Packages
from tenantry.rest.disk import write_whole, writing_to_disk

if TYPE_CHECKING:
    import httpx

FIELD = "spec.source.url"
OCI = "oci://"
"""The scheme of a package in a registry."""


@dataclass(frozen=True)
class FetchLimits:
    """size in bytes, twice that for all parts; time_s for a whole fetch; at_once, of which a tenant has a quarter."""

    size: int
    time_s: float
    at_once: int


@dataclass(frozen=True)
class _Wanted:
    tenant: str
    sha256: str
    location: str


class _Part(NamedTuple):
    """Bytes that are on their way. take_room: to be called before so many more are written."""

    path: Path
    take_room: Callable[[int], None]


class PackageFetcher:
    """ports.Fetcher. folder: holds bytes until they are stored. It exists, and is emptied when the process begins.

    ended: called with the package whose fetch has ended, with or without success.
    """

    def __init__(
        self, packages: Packages, folder: Path, downloads: Downloads, limits: FetchLimits, ended: Callable[[Ref], None]
    ) -> None:
        self._packages = packages
        self._folder = folder
        self._downloads = downloads
        self._limits = limits
        self._ended = ended
        self._fetches: dict[Ref, tuple[_Wanted, asyncio.Task[None]]] = {}
        self._room = Room(2 * limits.size)
        self._slots = asyncio.Semaphore(limits.at_once)
        share = max(1, limits.at_once // 4)
        self._of_tenant: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(share))

    async def begin(self, package: Ref, tenant: str, sha256: str, location: str) -> None:
        wanted = _Wanted(tenant, sha256, location)
        known = self._fetches.get(package)
        if known is not None:
            before, task = known
            if before == wanted and not task.done():
                return
            await self._drop(package)
            if before == wanted:
                task.result()
        task = asyncio.create_task(self._fetch(wanted), name=f"fetch {package}")
        self._fetches[package] = wanted, task
        task.add_done_callback(lambda task: self._over(package, task))

    async def cancel(self, tenant: str, sha256: str) -> None:
        for package, (wanted, _) in tuple(self._fetches.items()):
            if (wanted.tenant, wanted.sha256) == (tenant, sha256):
                await self._drop(package)

    async def hand_over(self, covers: Callable[[Ref], bool]) -> None:
        """End the fetches for these packages, which are another process's from now on."""
        for package in [each for each in self._fetches if covers(each)]:
            await self._drop(package)

    async def aclose(self) -> None:
        """Ends all fetches; nothing is left of them."""
        for package in tuple(self._fetches):
            await self._drop(package)

    def _over(self, package: Ref, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        known = self._fetches.get(package)
        if task.exception() is None and known is not None and known[1] is task:
            del self._fetches[package]
        self._ended(package)

    async def _drop(self, package: Ref) -> None:
        _, task = self._fetches.pop(package)
        task.cancel()
        await asyncio.wait([task])

    async def _fetch(self, wanted: _Wanted) -> None:
        async with self._of_tenant[wanted.tenant], self._slots, self._part(wanted.tenant) as part:
            try:
                async with asyncio.timeout(self._limits.time_s):
                    await self._download(wanted, part)
            except TimeoutError as error:
                raise failed(f"it takes longer than {self._limits.time_s:g} s") from error
            await self._store(wanted, part.path)

    async def _download(self, wanted: _Wanted, part: _Part) -> None:
        blob = await self._blob(wanted)
        async with self._downloads.open(blob.url, FIELD, blob.headers) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise failed(f"{answer.url.host} answers {answer.status_code}")
            found = await self._take(answer, part)
        if found == wanted.sha256:
            return
        told = f"what {answer.url.host} has is of sha256 {found}, and not what spec.sha256 says"
        if not {"content-length", "transfer-encoding"} & set(answer.headers):
            raise failed(f"{told}; the answer names no length, so it may have been cut")
        raise Halt(Stalled("PackageDiffers", told))

    async def _blob(self, wanted: _Wanted) -> Blob:
        if not wanted.location.startswith(OCI):
            return Blob(wanted.location, {})
        from tenantry.adapters.fetching.registry import find_package

        return await find_package(self._downloads, wanted.location.removeprefix(OCI), wanted.sha256)

    async def _take(self, answer: httpx.Response, part: _Part) -> str:
        """Writes the body to the file. Returns its sha256."""
        length = answer.headers.get("Content-Length", "0")
        if length.isdecimal() and int(length) > self._limits.size:
            raise self._too_large(answer)
        digest, size = hashlib.sha256(), 0
        with _new_file(part.path) as file:
            async for chunk in answer.aiter_raw(CHUNK):
                size += len(chunk)
                if size > self._limits.size:
                    raise self._too_large(answer)
                part.take_room(len(chunk))
                await asyncio.to_thread(_write, file, digest, chunk)
        return digest.hexdigest()

    def _too_large(self, answer: httpx.Response) -> Halt:
        return Halt(Stalled("PackageRefused", f"what {answer.url.host} has is larger than {self._limits.size} bytes"))

    async def _store(self, wanted: _Wanted, path: Path) -> None:
        storing = asyncio.create_task(self._packages.put(wanted.tenant, path))
        try:
            await asyncio.shield(storing)
        except QuotaReached:
            raise
        except Invalid as invalid:
            raise Halt(Stalled("PackageRefused", invalid.verdict.message)) from invalid
        finally:
            # What stores in a thread cannot be stopped: who cancels, to remove the bytes, goes on once it is over.
            await asyncio.gather(storing, return_exceptions=True)

    @asynccontextmanager
    async def _part(self, tenant: str) -> AsyncIterator[_Part]:
        path = self._folder / f"fetch-{uuid.uuid4().hex}.part"
        with self._room.part(tenant) as take_room:
            try:
                yield _Part(path, take_room)
            finally:
                await asyncio.to_thread(path.unlink, missing_ok=True)


def _new_file(path: Path) -> BinaryIO:
    with writing_to_disk():
        return path.open("xb", buffering=0)


def _write(file: BinaryIO, digest: hashlib._Hash, chunk: bytes) -> None:
    digest.update(chunk)
    write_whole(file, [chunk])
