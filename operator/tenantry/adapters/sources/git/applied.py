"""The commit that was applied last, by repository. It is kept outside of the repository's copy, which is only a cache."""

from __future__ import annotations

from typing import Protocol


class AppliedCommit(Protocol):
    """The last commit that was applied with nothing left to approve. Both raise what the store raises."""

    async def last(self) -> str:
        """Return that commit, `""` when there was none."""

    async def note(self, commit: str) -> None:
        """Keep another one."""


class AppliedCommitInMemory:
    """AppliedCommit in memory. It begins with what the owner of the source recorded."""

    def __init__(self, commit: str = "") -> None:
        self._commit = commit

    async def last(self) -> str:
        return self._commit

    async def note(self, commit: str) -> None:
        self._commit = commit
