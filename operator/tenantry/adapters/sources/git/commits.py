"""Commits made without a work tree, pushed by the lease of what they were made on: the remote has them whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tenantry.adapters.sources.git.command import Git, GitFailed
from tenantry.adapters.sources.git.repository import Repository
from tenantry.adapters.sources.git.url import GitUrl

COMMITTER = ("Tenantry", "tenantry@tenantry.invalid")
_BRANCH = re.compile(r"^ref: (refs/heads/\S+)\tHEAD$", re.M)
_PERSON = re.compile(r"(.*) <([^<>]*)>", re.S)
TREE, FILE = "040000", "100644"


@dataclass(frozen=True)
class Commits:
    """Writes to a repository and to its remote. signing_key: an SSH key that signs each commit, None for unsigned ones."""

    repository: Repository
    remote: GitUrl
    push_s: float
    signing_key: Path | None = None

    @property
    def _git(self) -> Git:
        return self.repository.git

    async def branch(self, ref: str) -> str:
        """The branch that a ref of the remote names, HEAD included. Raises GitFailed for a tag or a commit, which never move."""
        if ref == "HEAD":
            printed = await self._git.run("ls-remote", "--quiet", "--symref", "--", self.remote.url, "HEAD", within_s=self.push_s)
            found = _BRANCH.search(printed.decode(errors="replace"))
            ref = found[1] if found else ref
        if not ref.startswith("refs/heads/"):
            raise GitFailed(f"{ref} is no branch: nothing can be committed to it")
        return ref

    async def tree(self, base: str, files: Mapping[str, bytes | None]) -> str:
        """A tree with those files written, or removed where they are None, and everything else as in `base`."""
        blobs = {path: await self._blob(data) if data is not None else "" for path, data in files.items()}
        return await self._level(base, blobs)

    async def commit(self, tree: str, parent: str, author: str, message: str) -> str:
        """A commit of that tree. author: `Name <address>`."""
        person = _PERSON.fullmatch(author)
        name, address = person.groups() if person else (author, "")
        who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
        who |= {"GIT_COMMITTER_NAME": COMMITTER[0], "GIT_COMMITTER_EMAIL": COMMITTER[1]}
        signed = ("-S",) if self.signing_key else ()
        key = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={self.signing_key.absolute()}") if self.signing_key else ()
        made = ("commit-tree", tree, "-p", parent, *signed, "-F", "-")
        return (await self._git.run(*key, *made, given=message.encode(), variables=who)).decode().strip()

    async def push(self, commit: str, branch: str, expected: str) -> None:
        """Sets the remote's branch to a commit that follows `expected`, if that is what it names now; `""` for a new branch.

        Raises GitFailed; the remote may have taken it even so, when the connection broke.
        """
        lease = f"--force-with-lease={branch}:{expected}"
        await self._git.run(
            *("push", "--quiet", "--no-verify", "--recurse-submodules=no", "--signed=no", lease, "--", self.remote.url),
            f"{commit}:{branch}",
            within_s=self.push_s,
        )

    async def held(self, branch: str) -> str:
        """The commit that a branch of the remote names, `""` when there is no such branch. Raises GitFailed."""
        printed = await self._git.run("ls-remote", "--quiet", "--", self.remote.url, branch, within_s=self.push_s)
        return printed.decode(errors="replace").partition("\t")[0]

    async def _blob(self, data: bytes) -> str:
        return (await self._git.run("hash-object", "-w", "--stdin", given=data)).decode().strip()

    async def _level(self, base: str, blobs: Mapping[str, str]) -> str:
        """One tree and those below it. base: `""` for none yet. `""` when nothing is left in it."""
        held = {entry.path: (entry.mode, entry.oid) for entry in await self.repository.level(base)} if base else {}
        below: dict[str, dict[str, str]] = {}
        for path, oid in blobs.items():
            name, _, rest = path.partition("/")
            if rest:
                below.setdefault(name, {})[rest] = oid
            else:
                _put(held, name, held.get(name.encode(), (FILE, ""))[0], oid)
        for name, inside in below.items():
            mode, oid = held.get(name.encode(), (TREE, ""))
            if mode != TREE:
                raise GitFailed(f"{name} is a file, and a file below it is to be written")
            _put(held, name, TREE, await self._level(oid, inside))
        if not held:
            return ""
        lines = b"".join(_line(name, mode, oid) for name, (mode, oid) in held.items())
        return (await self._git.run("mktree", "-z", given=lines)).decode().strip()


def _put(held: dict[bytes, tuple[str, str]], name: str, mode: str, oid: str) -> None:
    if oid:
        held[name.encode()] = (mode, oid)
    else:
        held.pop(name.encode(), None)


def _line(name: bytes, mode: str, oid: str) -> bytes:
    kind = {TREE: "tree", "160000": "commit"}.get(mode, "blob")
    return f"{mode} {kind} {oid}\t".encode() + name + b"\0"
