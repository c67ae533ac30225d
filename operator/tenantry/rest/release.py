"""The release label that /docs and `tenantry version` show."""

from __future__ import annotations

VERSION = "0.2.0"
BUILD = 1
CHANNEL = "stable"


def release_label(version: str = VERSION, build: int = BUILD, channel: str = CHANNEL) -> str:
    """`v<major>.<minor>.<patch>-build.<n>-channel.<stable|insider>`."""
    return f"v{version}-build.{build}-channel.{channel}"
