"""Access to a remote on behalf of a user: its credentials, and the addresses that are allowed."""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from tenantry.adapters.sources.git.command import LOCAL_S, SSH, GitFailed
from tenantry.adapters.sources.git.url import GitUrl
from tenantry.rest.outbound import AddressRefused, Rules, addresses_of

Enter = Callable[[], AbstractAsyncContextManager[Mapping[str, str]]]
"""The variables of git's environment, for as long as one command takes. Raises GitFailed."""

Signer = Callable[[], AbstractAsyncContextManager[Path | None]]
"""The file of an SSH key that signs a commit, for as long as that takes; None for an unsigned one."""

KNOWS_RESOLVED = (2, 37)
"""The git that has http.curloptResolve."""
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_NO_PROXY = {"no_proxy": "*", "NO_PROXY": "*"}


@asynccontextmanager
async def as_configured() -> AsyncIterator[Mapping[str, str]]:
    """As the environment of this process, and nothing else, lets it."""
    yield {}


@asynccontextmanager
async def unsigned() -> AsyncIterator[None]:
    """A Signer of none."""
    yield None


@asynccontextmanager
async def key_at(path: Path) -> AsyncIterator[Path]:
    """A Signer by a key that has its file."""
    yield path


@asynccontextmanager
async def key_of(secret: str) -> AsyncIterator[Path]:
    """A Signer by a private key, which is on disk no longer than needed."""
    with tempfile.TemporaryDirectory(prefix="tenantry-git-") as folder:
        yield await asyncio.to_thread(_written, Path(folder) / "signing-key", secret)


def basic(given: str) -> str:
    """The value of the header. given: USER:PASSWORD, or a token alone, which goes with any user name at GitHub, GitLab, Gitea."""
    pair = given.strip() if ":" in given else f"git:{given.strip()}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@dataclass(frozen=True)
class RemoteAccess:
    """One remote. secret: for https what `basic` takes, for ssh a private key; known_hosts: lines of such a file; `""` for none.

    rules: which addresses it may have, with no proxy and no key of this host's user; None: any, as the user of this host.
    """

    remote: GitUrl
    secret: str = field(default="", repr=False)
    known_hosts: str = ""
    rules: Rules | None = None

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[Mapping[str, str]]:
        """The connection goes to the very address that was checked. Raises GitFailed."""
        addresses = await self._addresses() if self.rules is not None else ()
        if self.remote.scheme == "ssh":
            with tempfile.TemporaryDirectory(prefix="tenantry-git-") as folder:
                yield {"GIT_SSH_COMMAND": await asyncio.to_thread(self._ssh, Path(folder), addresses[:1])}
        else:
            closed = _NO_PROXY if self.rules is not None else {}
            yield {**closed, **_configured(self._http(addresses))}

    async def _addresses(self) -> tuple[str, ...]:
        if self.remote.scheme != "ssh" and await asyncio.to_thread(_git_version) < KNOWS_RESOLVED:
            raise GitFailed(f"git {'.'.join(map(str, KNOWS_RESOLVED))} or newer is needed: older ones ignore the checked address")
        host, port = self._host
        try:
            return await addresses_of(host, port, self.rules or Rules())
        except AddressRefused as error:
            raise GitFailed(error.verdict.message) from error
        except (OSError, UnicodeError) as error:
            raise GitFailed(f"{host} cannot be resolved") from error

    @property
    def _host(self) -> tuple[str, int]:
        parts = urlsplit(self.remote.url)
        return parts.hostname or "", parts.port or _PORTS[self.remote.scheme]

    def _http(self, addresses: Sequence[str]) -> Mapping[str, str]:
        settings = {}
        if self.secret:
            base = "/".join(self.remote.url.split("/", 3)[:3])
            settings[f"http.{base}/.extraHeader"] = f"Authorization: {basic(self.secret)}"
        if addresses:
            host, port = self._host
            told = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
            settings["http.curloptResolve"] = f"{host}:{port}:{told}"
        return settings

    def _ssh(self, folder: Path, addresses: Sequence[str]) -> str:
        """The command. It knows no configuration, agent or keys but these, where somebody else's remote is entered. Blocks."""
        options = []
        if self.rules is not None or self.secret:
            options += ["-F", "/dev/null", "-o", "IdentityAgent=none", "-o", "IdentitiesOnly=yes"]
            options += ["-i", str(_written(folder / "identity", self.secret))] if self.secret else ["-i", "/dev/null"]
        if self.rules is not None or self.known_hosts:
            hosts = _written(folder / "known_hosts", self.known_hosts)
            options += ["-o", f"UserKnownHostsFile={hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
        for address in addresses:
            host, port = self._host
            options += ["-o", f"HostName={address}", "-o", f"HostKeyAlias={host if port == 22 else f'[{host}]:{port}'}"]
        return " ".join((SSH, *map(shlex.quote, options)))


@cache
def _git_version() -> tuple[int, ...]:
    """Blocks. Raises GitFailed."""
    program = shutil.which("git")
    if not program:
        raise GitFailed("the git command is not installed")
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=False, timeout=LOCAL_S).stdout  # noqa: S603
    return tuple(int(part) for part in re.findall(r"[0-9]+", said)[:2])


def _configured(settings: Mapping[str, str]) -> dict[str, str]:
    """By the environment, for arguments can be seen by everybody on the machine."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))} if settings else {}
    for number, (name, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def _written(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text if text.endswith("\n") else f"{text}\n", "utf-8")
    return path
