"""Whole logs of Operations, as texts beside the packages."""

from __future__ import annotations

from typing import Protocol

from tenantry.model.verdicts import NotFound


class Texts(Protocol):
    """Texts by name."""

    async def put_text(self, name: str, text: bytes) -> None:
        """Stores or replaces one."""

    async def get_text(self, name: str) -> bytes:
        """Raises NotFound."""

    async def remove_text(self, name: str) -> None:
        """Idempotent."""


class BlobLogs:
    """ports.OperationLogs over a blob store."""

    def __init__(self, blobs: Texts) -> None:
        self._blobs = blobs

    async def append(self, operation: str, before: str, added: str) -> None:
        held = await self.read(operation)
        await self._blobs.put_text(operation, ((held if held is not None else before) + added).encode())

    async def read(self, operation: str) -> str | None:
        try:
            return (await self._blobs.get_text(operation)).decode()
        except NotFound:
            return None

    async def remove(self, operation: str) -> None:
        await self._blobs.remove_text(operation)
