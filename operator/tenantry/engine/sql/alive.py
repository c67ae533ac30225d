"""Connections to servers that have vanished. Without a library: the operator imports it, which has no engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

ALIVE: Mapping[str, Any] = MappingProxyType(
    {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
)
"""Options of a connection to a server: one whose other end has vanished is given up within half a minute."""
