"""Settings by which an engine reaches others and opens packages. This module imports no part of the platform."""

from __future__ import annotations

from dataclasses import replace

from tenantry.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.packages.check import PackageLimits
from tenantry.rest.outbound import Rules
from tenantry.settings import OutboundSettings, PackageSettings, parse_networks


def rules_of(settings: OutboundSettings) -> Rules:
    """Return the settings' rules for everybody."""
    return Rules(settings.http, parse_networks(settings.networks))


def web_rules_of(settings: OutboundSettings) -> Rules:
    """The same for issuers and hosts of packages, which a proxy may stand before."""
    return replace(rules_of(settings), proxy=settings.proxy)


def verifier(settings: OutboundSettings) -> ForeignTokens:
    """For all engines of a process: it keeps what it learns of issuers."""
    return foreign_tokens(web_rules_of(settings))


def limits_of(allowed: PackageSettings) -> PackageLimits:
    """Return the limits of a package file."""
    return PackageLimits(
        size=allowed.size, entries=allowed.entries, inflated=allowed.inflated, ratio=allowed.ratio, manifest=allowed.manifest
    )
