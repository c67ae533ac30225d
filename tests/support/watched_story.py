"""The story that operators live through while their watches fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tenantry.model.resource import Document
from tests.crash.faulty_feed import FaultyFeed
from tests.crash.watched_platform import Cluster, document, environment, secret

CHAPTERS = ("create", "edit", "delete")


def told(chapter: str) -> list[Document]:
    """The declarations of a chapter."""
    region, acme = document("Region", "eu"), document("Tenant", "acme", displayName="Acme")
    if chapter == "delete":
        return [region, acme, environment("acme", "live")]
    edited = chapter == "edit"
    who = {"environment": "dev", "username": "ann", "passwordSecretRef": {"name": "ann"}}
    issuer = {"environment": "dev", "issuerUrl": "https://issuer.example", "clientId": "two" if edited else "one"}
    return [
        region,
        acme,
        document("Tenant", "umbra", displayName="Umbra 2" if edited else "Umbra"),
        environment("acme", "live"),
        environment("acme", "dev", slug="develop" if edited else "dev"),
        environment("umbra", "solo"),
        secret("tenant-acme", "ann", "a changed password" if edited else "a first password"),
        document("Identity", "ann", "tenant-acme", **who),
        document("IdentityProvider", "corp", "tenant-acme", **issuer),
    ]


async def tell(folder: Path, feed_of: Any = FaultyFeed) -> tuple[Any, FaultyFeed]:
    """The end of the story as one operator sees it through a feed."""
    cluster = Cluster(folder)
    feed = feed_of(cluster.store)
    async with cluster.operator(feed) as operator:
        for chapter in CHAPTERS:
            await cluster.declare(told(chapter))
            await operator.settled()
        end = await operator.portrait()
        before = cluster.store.version
        operator.platform.runtime.resync()
        await operator.settled()
        assert cluster.store.version == before, "looking at everything again writes something"
    assert set(cluster.made.values()) == {1}, f"engines by id: {cluster.made}"
    live = (await cluster.store.list("Environment"))[0]
    assert cluster.engines() == sorted(each["metadata"]["uid"] for each in live), "an engine is left"
    return end, feed
