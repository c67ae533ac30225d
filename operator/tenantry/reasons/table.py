"""All reasons of conditions, Operations and errors, by topic."""

from __future__ import annotations

from collections.abc import Mapping

from tenantry.reasons.declarations import REFERENCES, SECRETS, STANDING, TENANTS
from tenantry.reasons.engines import BACKUPS, DATA, ENGINES
from tenantry.reasons.entries import Explanation, Explanations
from tenantry.reasons.platform import CLUSTER, LIMITS, MACHINE
from tenantry.reasons.sources import PACKAGES, SOURCES

TOPICS: Mapping[str, Explanations] = {
    "Any object": STANDING,
    "Names and references": REFERENCES,
    "Secrets and passwords": SECRETS,
    "Tenants, namespaces and slugs": TENANTS,
    "Sources and repositories": SOURCES,
    "Packages": PACKAGES,
    "Engines": ENGINES,
    "Data of engines": DATA,
    "Backups and restores": BACKUPS,
    "The machine": MACHINE,
    "The cluster": CLUSTER,
    "Rights and limits": LIMITS,
}
REASONS: Mapping[str, Explanation] = {reason: entry for topic in TOPICS.values() for reason, entry in topic.items()}
