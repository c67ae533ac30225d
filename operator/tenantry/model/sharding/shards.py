"""The shard of an object. All objects of a tenant are in one shard; those of the platform are in shard 0."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache

from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, ref_of

PLATFORM = 0
"""The shard of what has no namespace, and of the platform's own namespace."""
_OPERATION = "Operation"

Owns = Callable[[Ref], bool]


@lru_cache(maxsize=1 << 16)
def shard_of_namespace(namespace: str, count: int) -> int:
    """Return the shard of a namespace among `count`. `""` stands for what has none."""
    if count == 1 or namespace in ("", SYSTEM_NAMESPACE):
        return PLATFORM
    digest = hashlib.blake2b(namespace.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


def shard_of(ref: Ref, count: int) -> int:
    """Return the shard of an object that is reconciled. For an Operation see `sharded_as`."""
    return shard_of_namespace(ref.namespace, count)


def sharded_as(document: Document) -> Ref:
    """Return the object by which a document has its shard: the target of an Operation, which lives in the platform's namespace
    itself; for any other document its own."""
    if document["kind"] != _OPERATION:
        return ref_of(document)
    target = document["spec"]["target"]
    return Ref(target["kind"], target.get("namespace") or "", target["name"])


def owns_all(ref: Ref) -> bool:
    """Of a process that shares its work with nobody."""
    return True


class HeldShards:
    """The shards on which this process acts now. Called with a reference, it says whether the object is in one of them."""

    def __init__(self) -> None:
        self.count = 1
        self.held: frozenset[int] = frozenset()

    def __call__(self, ref: Ref) -> bool:
        return shard_of(ref, self.count) in self.held

    def hold(self, count: int, held: Iterable[int]) -> None:
        """Replace both. The count changes only while no shard is held: objects of one shard would be in another otherwise."""
        wanted = frozenset(held)
        assert self.count == count or not self.held or not wanted
        self.count, self.held = count, wanted

    def among(self, shards: frozenset[int]) -> Owns:
        """Return the test whether an object is in one of those shards, by the present count."""
        count = self.count
        return lambda ref: shard_of(ref, count) in shards
