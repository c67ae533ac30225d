"""Package bytes and long texts in an object store (S3 and its like), for as many processes as there are.

    pool/<sha256>                the bytes, once
    holders/<sha256>/<tenant>    the tenant has them (`_shared`: all have); its content is what the package says of itself
    texts/<name>                 logs of Operations

Bytes that nobody holds any more are not removed at once, for another process may just be giving them to somebody: `sweep` removes
them once they are old, and `put` makes them young again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
import orjson
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from tenantry.adapters.blobs import SHARED, Check
from tenantry.adapters.fetched import FetchedPackages
from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Halt, Invalid, NotFound, Transient
from tenantry.packages.check import sha256_of

CHUNK = 8 << 20
YOUNG = timedelta(hours=1)
"""The time that unreferenced bytes are kept."""
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}\Z")


class ObjectBlobs:
    """ports.Packages, and texts by name, over an obstore store. `folder`: uploads and fetched packages of this process."""

    def __init__(
        self, store: ObjectStore, folder: Path, check: Check, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Makes the folder where it is missing. Blocks. Raises OSError."""
        self._store = store
        self._check = check
        self._now = now
        self.incoming = folder / "incoming"
        fetched = folder / "fetched"
        for each in (self.incoming, fetched):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fetched = FetchedPackages(fetched)

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        """Raises Invalid, or a Transient Halt (BlobsUnavailable)."""
        facts = checked if checked else await self._checked(tenant, package)
        with _asking():
            if await self._age(f"pool/{facts.sha256}") is None:
                await obstore.put_async(self._store, f"pool/{facts.sha256}", package, chunk_size=CHUNK)
            await obstore.put_async(self._store, _holder(tenant, facts.sha256), orjson.dumps(asdict(facts)))
            age = await self._age(f"pool/{facts.sha256}")
            if age is None or age > YOUNG / 2:
                # A sweep may be about to remove what nobody held until now.
                await obstore.put_async(self._store, f"pool/{facts.sha256}", package, chunk_size=CHUNK)
        return facts

    async def _checked(self, tenant: str, package: Path) -> PackageFacts:
        """The facts of a file that comes in: one that is stored already may come again. Raises Invalid."""
        try:
            return await asyncio.to_thread(self._check, package)
        except Invalid:
            known = await self.inspect(tenant, await asyncio.to_thread(sha256_of, package))
            if known is None:
                raise
            return known

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        raw = await self._read(_holder(tenant, sha256))
        if raw is None:
            return None
        told = orjson.loads(raw)
        return PackageFacts(**told | {"roles": tuple(told["roles"])})

    async def fetch(self, tenant: str, sha256: str) -> Path:
        if await self.inspect(tenant, sha256) is None:
            raise NotFound(f"package {sha256} is not stored for {tenant or 'all tenants'}")
        found = await self._fetched.find(sha256)
        return found or await self._fetched.take(sha256, self._bytes(f"pool/{sha256}"))

    async def remove(self, tenant: str, sha256: str) -> None:
        await self._delete(_holder(tenant, sha256))

    async def remove_all(self, tenant: str) -> None:
        with _asking():
            held = [path for path in await self._paths("holders/") if path.split("/")[2] == (tenant or SHARED)]
        for path in held:
            await self._delete(path)

    async def sizes(self, tenant: str) -> dict[str, int]:
        """Bytes of each package that the tenant has, by sha256."""
        with _asking():
            held = {path.split("/")[1] for path in await self._paths("holders/") if path.split("/")[2] == (tenant or SHARED)}
            pool = [meta async for batch in obstore.list(self._store, "pool/") for meta in batch]
        sizes = {meta["path"].removeprefix("pool/"): meta["size"] for meta in pool}
        return {sha256: size for sha256, size in sizes.items() if sha256 in held}

    async def put_text(self, name: str, text: bytes) -> None:
        """Stores or replaces a text."""
        with _asking():
            await obstore.put_async(self._store, _text(name), text)

    async def get_text(self, name: str) -> bytes:
        """Raises NotFound."""
        found = await self._read(_text(name))
        if found is None:
            raise NotFound(f"{name} is not stored")
        return found

    async def remove_text(self, name: str) -> None:
        """Idempotent."""
        await self._delete(_text(name))

    async def sweep(self) -> int:
        """Removes old bytes that nobody holds. Returns how many packages."""
        removed = 0
        with _asking():
            held = {path.split("/")[1] for path in await self._paths("holders/")}
            for path in await self._paths("pool/"):
                age = await self._age(path)
                if path.removeprefix("pool/") not in held and age is not None and age > YOUNG:
                    await obstore.delete_async(self._store, path)
                    removed += 1
        return removed

    async def _paths(self, prefix: str) -> list[str]:
        return [meta["path"] async for batch in obstore.list(self._store, prefix) for meta in batch]

    async def _age(self, path: str) -> timedelta | None:
        try:
            return self._now() - (await obstore.head_async(self._store, path))["last_modified"]
        except FileNotFoundError:
            return None

    async def _read(self, path: str) -> bytes | None:
        with _asking():
            try:
                return bytes(await (await obstore.get_async(self._store, path)).bytes_async())
            except FileNotFoundError:
                return None

    async def _delete(self, path: str) -> None:
        with _asking():
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                return

    async def _bytes(self, path: str) -> AsyncIterator[bytes]:
        with _asking():
            try:
                found = await obstore.get_async(self._store, path)
            except FileNotFoundError:
                raise NotFound(f"{path} is not stored") from None
            async for chunk in found.stream(min_chunk_size=CHUNK):
                yield bytes(chunk)


def _holder(tenant: str, sha256: str) -> str:
    if not _SHA256.match(sha256) or (tenant and not _NAME.match(tenant)):
        raise NotFound(f"package {sha256} is not stored for {tenant or 'all tenants'}")
    return f"holders/{sha256}/{tenant or SHARED}"


def _text(name: str) -> str:
    if not _NAME.match(name):
        raise NotFound(f"{name!r} is not stored")
    return f"texts/{name}"


@contextmanager
def _asking() -> Iterator[None]:
    """Turn failures of the object store into Transient Halts, because they may pass."""
    try:
        yield
    except BaseError as error:
        raise Halt(Transient("BlobsUnavailable", f"the object store: {error}")) from error
