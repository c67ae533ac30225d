"""Limits under which tests judge packages."""

from __future__ import annotations

from tenantry.packages.check import PackageLimits

LIMITS = PackageLimits(size=1 << 20, entries=20, inflated=4 << 20, ratio=200, manifest=64 << 10)
