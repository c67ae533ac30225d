"""Commits made without a work tree, pushed by the lease of what they were made on: the remote has them whole, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tenantry.adapters.sources.git.command import Git, GitFailed
from tenantry.adapters.sources.git.entering import Signer, unsigned
from tenantry.adapters.sources.git.repository import Repository
from tenantry.model.verdicts import Invalid, Problem

COMMITTER = ("Tenantry", "tenantry@tenantry.invalid")
_BRANCH = re.compile(r"^ref: (refs/heads/\S+)\tHEAD$", re.M)
_PERSON = re.compile(r"(.*) <([^<>]*)>", re.S)
TREE, FILE = "040000", "100644"


@dataclass(frozen=True)
class Commits:
    """Writes to a repository and to its remote. push_s: how long that may take; signer: of each commit."""

    repository: Repository
    push_s: float
    signer: Signer = unsigned

    @property
    def _git(self) -> Git:
        return self.repository.git

    async def branch(self, ref: str) -> str:
        """The branch that a ref of the remote names, HEAD included. Raises GitFailed for a tag or a commit, which never move."""
        if ref == "HEAD":
            printed = await self._ask("--symref", "--", self._url, "HEAD")
            found = _BRANCH.search(printed.decode(errors="replace"))
            ref = found[1] if found else ref
        if not ref.startswith("refs/heads/"):
            raise GitFailed(f"{ref} is not a branch: nothing can be committed to it")
        return ref

    async def tree(self, base: str, files: Mapping[str, bytes | None]) -> str:
        """A tree with those files written, or removed where they are None, and everything else as in `base`.

        Raises Invalid where a file is to be what is a folder, or the other way round.
        """
        blobs = {path: await self._blob(data) if data is not None else "" for path, data in files.items()}
        return await self._level(base, blobs)

    async def commit(self, tree: str, parent: str, author: str, message: str) -> str:
        """A commit of that tree. author: `Name <address>`."""
        person = _PERSON.fullmatch(author)
        name, address = person.groups() if person else (author, "")
        who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
        who |= {"GIT_COMMITTER_NAME": COMMITTER[0], "GIT_COMMITTER_EMAIL": COMMITTER[1]}
        who["SSH_AUTH_SOCK"] = ""  # an agent would sign for everybody who names the public half of one of its keys
        async with self.signer() as key:
            configured = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key.absolute()}") if key else ()
            made = ("commit-tree", tree, "-p", parent, *(("-S",) if key else ()), "-F", "-")
            return (await self._git.run(*configured, *made, given=message.encode(), variables=who)).decode().strip()

    async def push(self, commit: str, branch: str, expected: str) -> None:
        """Sets the remote's branch to a commit that follows `expected`, if that is what it names now; `""` for a new branch.

        Raises GitFailed; the remote may have taken it even so, when the connection broke.
        """
        lease = f"--force-with-lease={branch}:{expected}"
        await self.repository.at_remote(
            *("push", "--quiet", "--no-verify", "--recurse-submodules=no", "--signed=no", lease, "--", self._url),
            f"{commit}:{branch}",
            within_s=self.push_s,
        )

    async def held(self, branch: str) -> str:
        """The commit that a branch of the remote names, `""` when there is no such branch. Raises GitFailed."""
        printed = await self._ask("--", self._url, branch)
        return printed.decode(errors="replace").partition("\t")[0]

    @property
    def _url(self) -> str:
        return self.repository.remote.url

    async def _ask(self, *arguments: str) -> bytes:
        return await self.repository.at_remote("ls-remote", "--quiet", *arguments, within_s=self.push_s)

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
                mode, _ = held.get(name.encode(), (FILE, ""))
                if mode == TREE:
                    raise _in_the_way(f"{name} is a folder, and is to be a file")
                _put(held, name, mode, oid)
        for name, inside in below.items():
            mode, oid = held.get(name.encode(), (TREE, ""))
            if mode != TREE:
                raise _in_the_way(f"{name} is a file, and a file below it is to be written")
            _put(held, name, TREE, await self._level(oid, inside))
        if not held:
            return ""
        lines = b"".join(_line(name, mode, oid) for name, (mode, oid) in held.items())
        return (await self._git.run("mktree", "-z", given=lines)).decode().strip()


def _in_the_way(reason: str) -> Invalid:
    return Invalid((Problem("", reason),))


def _put(held: dict[bytes, tuple[str, str]], name: str, mode: str, oid: str) -> None:
    if oid:
        held[name.encode()] = (mode, oid)
    else:
        held.pop(name.encode(), None)


def _line(name: bytes, mode: str, oid: str) -> bytes:
    kind = {TREE: "tree", "160000": "commit"}.get(mode, "blob")
    return f"{mode} {kind} {oid}\t".encode() + name + b"\0"
