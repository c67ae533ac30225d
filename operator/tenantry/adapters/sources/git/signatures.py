"""Verification of a commit's signature by git itself, against only the keys of one file."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import structlog

from tenantry.adapters.sources.git.command import GitFailed
from tenantry.adapters.sources.git.repository import Repository

log = structlog.get_logger(__name__)

ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
IMPORT_S = 30.0
_SSH = re.compile(rb"^gpgsig(?:-sha256)? -----BEGIN SSH SIGNATURE-----$", re.M)
_ANY = re.compile(rb"^gpgsig(?:-sha256)? -----BEGIN (?:SSH|PGP) SIGNATURE-----$", re.M)


class Signatures:
    """Verifies commits. keys: a file of SSH allowed signers, or of armored OpenPGP public keys; read whenever it is used.

    shown: how people know that file, by its path where `""`."""

    def __init__(self, repository: Repository, keys: Path, shown: str = "") -> None:
        self._repository = repository
        self._keys = keys
        self._shown = shown or str(keys)

    async def refusal(self, commit: str) -> str:
        """Return the reason to refuse a commit, `""` if one of the keys signed it. Raises OSError (the file)."""
        keys = await asyncio.to_thread(self._keys.read_bytes)
        header = (await self._repository.git.run("cat-file", "commit", commit)).partition(b"\n\n")[0]
        if _ANY.search(header) is None:
            return "it is not signed"
        openpgp = keys.lstrip().startswith(ARMOR)
        if openpgp == bool(_SSH.search(header)):
            return f"it is signed with another kind of key than those of {self._shown}"
        try:
            await (self._openpgp(commit, keys) if openpgp else self._ssh(commit))
        except GitFailed as error:
            log.warning("a signature was not verified", commit=commit, error=str(error))
            return f"its signature was not made with a key of {self._shown}, or is invalid"
        return ""

    async def _ssh(self, commit: str) -> None:
        options = ("-c", f"gpg.ssh.allowedSignersFile={self._keys.absolute()}", "-c", "gpg.minTrustLevel=fully")
        await self._repository.git.run(*options, "verify-commit", commit)

    async def _openpgp(self, commit: str, keys: bytes) -> None:
        home = await asyncio.to_thread(_made)
        try:
            await _imported(home, keys)
            options = ("-c", "gpg.minTrustLevel=fully")
            await self._repository.git.run(*options, "verify-commit", commit, variables={"GNUPGHOME": str(home)})
        finally:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _made() -> Path:
    """gpg's own folder. Its path must be short: gpg refuses one in which the path of a socket has no room."""
    home = Path(tempfile.mkdtemp(prefix="tenantry-gpg-"))
    # The file is the trust: all of its keys are meant. Nothing is asked of a network.
    (home / "gpg.conf").write_text("trust-model always\nno-autostart\nno-auto-key-retrieve\n")
    return home


async def _imported(home: Path, keys: bytes) -> None:
    program = shutil.which("gpg")
    if not program:
        raise GitFailed("the gpg command is not installed")
    process = _importing(program, home)
    try:
        await asyncio.to_thread(process.communicate, keys, IMPORT_S)
    except subprocess.TimeoutExpired:
        raise GitFailed(f"gpg did not read the keys within {IMPORT_S:.0f} s") from None
    finally:
        process.kill()  # it does nothing to one that has ended
        await asyncio.shield(asyncio.to_thread(process.wait))
    if process.returncode:
        raise GitFailed("gpg cannot read the keys")


def _importing(program: str, home: Path) -> subprocess.Popen[bytes]:
    """gpg, which waits for keys."""
    return subprocess.Popen(  # noqa: S603 - every part of the command line is ours
        [program, "--batch", "--quiet", "--homedir", str(home), "--import"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GNUPGHOME": str(home)},
    )
