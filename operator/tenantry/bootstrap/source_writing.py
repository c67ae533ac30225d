"""How a process that follows no Sources writes to their repositories: the api of a cluster, whose operator follows them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tenantry.bootstrap.seat import Ports, now
from tenantry.bootstrap.source_kind import SourceRepositories
from tenantry.hosts.source_clones import SourceClones
from tenantry.kinds.admission import Admission
from tenantry.kinds.source.decide import order_of, refusal_of
from tenantry.kinds.source.observe import observe
from tenantry.kinds.source.spec import Source
from tenantry.model.resource import Ref
from tenantry.model.syncing import SyncOrder, owner_of
from tenantry.model.verdicts import Halt, Transient
from tenantry.ports import Secrets
from tenantry.runtime.asking import ask_to_look
from tenantry.runtime.cache import Cache
from tenantry.runtime.following import TrackedView
from tenantry.runtime.write_back import WriteBack
from tenantry.runtime.writers import SourceWriters
from tenantry.settings import Settings


@dataclass(frozen=True)
class SourceWriting:
    """The writers, and the copies of repositories that they need, which are to be swept."""

    writers: SourceWriters
    clones: SourceClones

    @classmethod
    def of(cls, settings: Settings, ports: Ports, cache: Cache, secrets: Secrets, scratch: Path) -> SourceWriting:
        """scratch: a folder for copies of repositories, and for packages while they are built."""
        admission = Admission()
        repositories = SourceRepositories(scratch / "sources", scratch, settings, admission, ports.packages, secrets, cache)
        ask, within_s = partial(_ask, ports), settings.git.write_timeout.total_seconds()
        clones = SourceClones(repositories, partial(_order, ports, cache), ask, time.monotonic, within_s)

        def write_back(source: Source) -> WriteBack:
            return WriteBack(owner_of(source.ref), partial(clones.turn, source), admission.admit)

        return cls(SourceWriters(cache, write_back), clones)


async def _order(ports: Ports, cache: Cache, source: Source) -> SyncOrder:
    """What the operator's pass makes of the Source as it is now, too. Raises a Halt where it is refused, or there no more."""
    held = cache.resource(source.ref)
    if not isinstance(held, Source) or held.metadata.uid != source.metadata.uid or held.suspended or held.deleting:
        raise Halt(Transient("SourceNotWritten", f"source {owner_of(source.ref)} takes no writes any more: try again"))
    seen = await observe(held, ports.world(TrackedView(cache)))
    refusal = refusal_of(seen)
    if refusal is not None:
        raise Halt(refusal)
    return order_of(seen)


async def _ask(ports: Ports, source: Ref) -> None:
    await ask_to_look(ports.store, source, now())
