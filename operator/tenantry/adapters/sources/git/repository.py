"""The bare repository that a source keeps in the state folder: a cache of the remote, made anew whenever it is not sound."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from tenantry.adapters.sources.git.command import MOST_OUTPUT, Git, GitFailed, GitLimits
from tenantry.adapters.sources.git.entering import Enter, as_configured
from tenantry.adapters.sources.git.provenance import (
    History,
    Version,
    parse_log,
    parse_version,
    several_times_changed,
    within_bytes,
)
from tenantry.adapters.sources.git.url import GitUrl

READ = "refs/tenantry/read"
"""The last revision that could be read as a whole."""
APPLIED = "refs/tenantry/applied"
"""The last revision of which nothing is left to approve."""
_FETCHED = "refs/tenantry/fetched"
_LARGEST_ENTRY = 200
"""Bytes that a listing's entry may take on average."""
ASK_S = 30.0
MOST_PACKS = 40
_LEFT = ("*.lock", "tmp_*", ".tmp-*")
_ENTRY = re.compile(rb"([0-7]{6}) (blob|tree|commit) ([0-9a-f]{40,64}) +(-|[0-9]+)\t(.+)", re.S)


class TreeEntry(NamedTuple):
    """One file, link or submodule of a tree. mode: as git writes it; size: bytes; path: below the tree, as its bytes."""

    mode: str
    oid: str
    size: int
    path: bytes


class Repository:
    """Everything asks the local repository but `tip`, `fetch` and `at_remote`. All raise GitFailed."""

    def __init__(self, folder: Path, remote: GitUrl, limits: GitLimits, enter: Enter = as_configured) -> None:
        """enter: what git needs besides to enter the remote."""
        self._folder = folder = folder.absolute()  # git runs elsewhere
        self._enter = enter
        self._remote = remote
        self._limits = limits
        self._git = Git(folder, remote, limits)

    @property
    def git(self) -> Git:
        """Runs git over it."""
        return self._git

    @property
    def remote(self) -> GitUrl:
        """Return the URL of its origin."""
        return self._remote

    async def at_remote(self, *arguments: str, within_s: float) -> bytes:
        """Runs a git command that speaks to the remote; what it prints."""
        async with self._enter() as variables:
            return await self._git.run(*arguments, within_s=within_s, variables=variables)

    async def is_made(self) -> bool:
        """Return True if the repository exists."""
        return await asyncio.to_thread(self._is_made)

    async def tip(self) -> tuple[str, str]:
        """The remote's ref, and the object that it names now; a commit's is itself. A branch goes before a tag of its name."""
        revision = self._remote.revision
        if self._remote.pinned:
            return revision, revision
        full = revision.startswith("refs/") or not revision
        wanted = [revision or "HEAD"] if full else [f"refs/heads/{revision}", f"refs/tags/{revision}"]
        asked = ("ls-remote", "--quiet", "--", self._remote.url, *wanted)
        printed = await self.at_remote(*asked, within_s=ASK_S)
        lines = (line.partition("\t") for line in printed.decode(errors="replace").splitlines())
        found = {ref: oid for oid, _, ref in lines}
        for ref in wanted:
            if ref in found:
                return ref, found[ref]
        raise GitFailed(f"the repository has no branch or tag {revision}" if revision else "the repository is empty")

    async def fetch(self, ref: str, oid: str) -> str:
        """Brings what a ref of the remote names now, with some history. Returns the commit. oid: for its object format."""
        await self._ready("sha256" if len(oid) == 64 else "sha1")
        try:
            await self.at_remote(
                *("fetch", "--quiet", f"--depth={self._limits.depth}", "--no-tags", "--no-write-fetch-head"),
                *("--no-recurse-submodules", "--no-auto-maintenance", "--", self._remote.url, f"+{ref}:{_FETCHED}"),
                within_s=self._limits.fetch_s,
            )
        except GitFailed as error:
            if await asyncio.to_thread(self._is_full):
                raise GitFailed(f"a fetch transfers more than {self._limits.bytes // 2**20} MiB") from error
            raise
        finally:
            await asyncio.to_thread(self._sweep)
        commit = await self._resolved(_FETCHED)
        if commit is None:
            raise GitFailed(f"{ref} names no commit")
        if await asyncio.to_thread(self._packs) > MOST_PACKS:
            await self._git.run("repack", "-a", "-d", "--quiet", within_s=self._limits.fetch_s)
        return commit

    async def noted(self, ref: str) -> str:
        """The commit under one of our own refs, `""` when there is none."""
        return await self._resolved(ref) or "" if await asyncio.to_thread(self._is_made) else ""

    async def note(self, ref: str, commit: str) -> None:
        """Sets one of our own refs."""
        await asyncio.to_thread(self._sweep)
        await self._git.run("update-ref", "--no-deref", ref, commit)

    async def follows(self, commit: str, earlier: str) -> bool:
        """Return True if `earlier` is in the known history of `commit`."""
        try:
            printed = await self._git.run("merge-base", earlier, commit)
        except GitFailed:
            return False
        return printed.decode().strip() == earlier

    async def ancestors(self, commit: str, most: int) -> tuple[str, ...]:
        """Return the newest commits of the known history of `commit`, which is the first. Raises GitFailed."""
        printed = await self._git.run("rev-list", f"--max-count={most}", commit)
        return tuple(printed.decode().split())

    async def at(self, commit: str, path: str) -> TreeEntry | None:
        """Return the entry at a path, None if there is none; `""` is the tree itself."""
        if not path:
            return TreeEntry(
                "040000", (await self._git.run("rev-parse", "--verify", f"{commit}^{{tree}}")).decode().strip(), 0, b""
            )
        found = list(_entries(await self._git.run("ls-tree", "-z", "-l", "--full-tree", commit, "--", path)))
        return found[0] if found else None

    async def level(self, tree: str) -> list[TreeEntry]:
        """Return the direct entries of a tree, including its subtrees."""
        return list(_entries(await self._git.run("ls-tree", "-z", "-l", "--full-tree", tree)))

    async def entries(self, tree: str) -> list[TreeEntry]:
        """All files, links and submodules below a tree."""
        most = self._limits.entries * _LARGEST_ENTRY
        printed = await self._git.run("ls-tree", "-r", "-z", "-l", "--full-tree", tree, most=most)
        found = await asyncio.to_thread(lambda: list(_entries(printed)))
        if len(found) > self._limits.entries:
            raise GitFailed(f"the tree holds more than {self._limits.entries:,} files")
        return found

    async def blobs(self, sizes: Mapping[str, int]) -> dict[str, bytes]:
        """The bytes of files, by their ids; sizes: as `entries` gave them."""
        if not sizes:
            return {}
        given = "".join(f"{oid}\n" for oid in sizes).encode()
        printed = await self._git.run("cat-file", "--batch", given=given, most=sum(sizes.values()) + 256 * len(sizes))
        return dict(_batch(printed, sizes))

    async def blob_into(self, oid: str, file: IO[bytes]) -> None:
        """Writes a file's bytes to an open one."""
        await self._git.run("cat-file", "blob", oid, into=file, within_s=self._limits.fetch_s)

    async def history(self, commit: str, path: str) -> History:
        """Return the commits that changed the documents below `path`, in the known history. Deleted files are included."""
        printed = await self._git.run(
            *("log", f"--max-count={4 * self._limits.depth}", "--parents", "--full-history", "-c", "--name-only", "--no-renames"),
            *("-z", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--encoding=UTF-8"),
            *("--format=%x00%x00%x00%H %P%x00%an <%ae>", commit, "--", *([path] if path else [])),
            most=min(MOST_OUTPUT, 4 * self._limits.entries * _LARGEST_ENTRY),
        )
        commits = await asyncio.to_thread(parse_log, printed)
        edges = await asyncio.to_thread(self._edges)
        files = several_times_changed(commits)
        tip = next(iter(commits), commit)
        found = await self._versions(files, list(commits)) if files else {}
        for versions in found.values():
            if tip in versions:
                versions[commit] = versions[tip]
        return History(commit, commits, edges, found)

    async def _versions(self, files: list[bytes], commits: list[str]) -> dict[bytes, dict[str, Version]]:
        """The documents of files in each of the commits that have them, by two processes in all."""
        asked = [(file, commit) for file in files for commit in commits]
        given = b"".join(commit.encode() + b":" + file + b"\n" for file, commit in asked)
        printed = await self._git.run("cat-file", "--batch-check", given=given)
        found: dict[bytes, dict[str, tuple[str, int]]] = {file: {} for file in files}
        for (file, commit), line in zip(asked, printed.split(b"\n"), strict=False):
            oid, kind, size = line.split()[-3:] if line.count(b" ") == 2 else (b"", b"", b"0")
            if kind == b"blob":
                found[file][commit] = (oid.decode(), int(size))
        kept = within_bytes(found.items())
        blobs = await self.blobs(dict(version for versions in kept.values() for version in versions.values()))
        parsed = await asyncio.to_thread(lambda: {oid: parse_version(content) for oid, content in blobs.items()})
        return {file: {commit: parsed[oid] for commit, (oid, _) in versions.items()} for file, versions in kept.items()}

    async def sound(self) -> bool:
        """Return True if nothing of it is missing or damaged."""
        if not await asyncio.to_thread(self._is_made):
            return True
        try:
            await self._git.run("fsck", "--no-dangling", "--no-progress", within_s=self._limits.fetch_s)
        except GitFailed:
            return False
        return True

    async def discard(self) -> None:
        """Throws it away: the next fetch makes it anew."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _ready(self, object_format: str) -> None:
        """Makes it, where it is not there or has other ids than the remote; removes what a killed git has left behind."""
        if await asyncio.to_thread(self._is_made):
            await asyncio.to_thread(self._sweep)
            have = (await self._git.run("rev-parse", "--show-object-format")).decode().strip()
            if have == object_format:
                return
        await self.discard()
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, parents=True)
        await self._git.run("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(self._folder))

    async def _resolved(self, name: str) -> str | None:
        """The commit that a name means, None when it means none."""
        try:
            return (await self._git.run("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")).decode().strip()
        except GitFailed:
            return None

    def _is_made(self) -> bool:
        return (self._folder / "HEAD").exists()

    def _packs(self) -> int:
        return sum(1 for _ in (self._folder / "objects" / "pack").glob("*.pack"))

    def _is_full(self) -> bool:
        """Return True if the limit of bytes ended a fetch."""
        packs = (self._folder / "objects" / "pack").glob("tmp_pack_*")
        return any(pack.stat().st_size >= self._limits.bytes for pack in packs)

    def _sweep(self) -> None:
        """Nobody else uses it: a lock, or a half-written pack, is what a killed git has left."""
        for pattern in _LEFT:
            for left in list(self._folder.rglob(pattern)):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)

    def _edges(self) -> frozenset[str]:
        """The commits at which the known history ends: they seem to have made every file."""
        with suppress(FileNotFoundError):
            return frozenset((self._folder / "shallow").read_text().split())
        return frozenset()


def _entries(printed: bytes) -> Iterator[TreeEntry]:
    for line in printed.split(b"\0"):
        if line:
            found = _ENTRY.fullmatch(line)
            if found is None:
                raise GitFailed("the tree of the revision is malformed")
            mode, _, oid, size, path = found.groups()
            yield TreeEntry(mode.decode(), oid.decode(), int(size) if size != b"-" else 0, path)


def _batch(printed: bytes, wanted: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The objects of `cat-file --batch`: a line with id, type and size, then the bytes and a newline."""
    position = 0
    for oid in wanted:
        end = printed.index(b"\n", position)
        head = printed[position:end].split()
        if len(head) != 3 or head[1] != b"blob":
            raise GitFailed(f"the file {oid} is missing from the repository")
        size = int(head[2])
        yield oid, printed[end + 1 : end + 1 + size]
        position = end + size + 2
