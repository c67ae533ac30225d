"""The address of the API server and the credentials for it: from a pod's ServiceAccount, or from a kubeconfig."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tenantry.model.verdicts import Halt, Stalled

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LASTS_S = 60.0
"""A mounted token is replaced well before it expires; reading it each minute is soon enough."""
RENEWAL_PAUSE_S = 1.0


class ServerAccess(NamedTuple):
    """One way to the API server. authorization: the header's value, `""` for a client certificate."""

    server: str
    authorization: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


class Credentials:
    """The access as it is now: read again once it is `lasts` seconds old, or was refused."""

    def __init__(self, read: Callable[[], ServerAccess], lasts: float = math.inf, pause: float = RENEWAL_PAUSE_S) -> None:
        """read: blocking; run in a thread. pause: seconds before what was read is read again because it was refused."""
        self._read = read
        self._lasts = lasts
        self._pause = pause
        self._held: tuple[ServerAccess, float] | None = None
        self._turn = asyncio.Lock()

    async def access(self) -> ServerAccess:
        """Raises a Stalled Halt (CredentialsUnreadable)."""
        if self._held is not None and time.monotonic() - self._held[1] < self._lasts:
            return self._held[0]
        return await self._renewed(self._held)

    async def renew(self, refused: ServerAccess) -> ServerAccess:
        """Another access than the refused one, if there is any; rotated tokens and certificates are found so."""
        held = self._held
        if held is None or held[0] is not refused or time.monotonic() - held[1] < self._pause:
            return await self.access()
        return await self._renewed(held)

    async def _renewed(self, before: tuple[ServerAccess, float] | None) -> ServerAccess:
        async with self._turn:
            if self._held is None or self._held is before:
                self._held = (await asyncio.to_thread(self._read), time.monotonic())
            return self._held[0]


def find_credentials(kubeconfig: Path | None = None, context: str | None = None) -> Credentials:
    """Return the pod's own credentials if it has some and no kubeconfig is named; otherwise those of the kubeconfig.

    kubeconfig: None is KUBECONFIG or ~/.kube/config; context: None is the file's current one.
    """
    named = kubeconfig is not None or context is not None or "KUBECONFIG" in os.environ
    if not named and "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster()
    return from_kubeconfig(kubeconfig, context)


def in_cluster(mounted: Path = SERVICE_ACCOUNT) -> Credentials:
    """A pod's ServiceAccount; the token file is read again each minute."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def read() -> ServerAccess:
        try:
            token, authority = (mounted / "token").read_text().strip(), (mounted / "ca.crt").read_text()
            return ServerAccess(server, f"Bearer {token}", _trusting(authority))
        except (OSError, ssl.SSLError) as error:
            raise _unreadable(f"the pod's ServiceAccount in {mounted}: {error}") from error

    return Credentials(read, TOKEN_LASTS_S)


def from_kubeconfig(path: Path | None = None, context: str | None = None) -> Credentials:
    """Return the credentials that kubectl would use: tokens, certificates, exec plugins. Read again when they are refused."""

    def read() -> ServerAccess:
        # Imported here: it costs 34 MB, which a pod with a ServiceAccount need not pay.
        import yaml
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config

        configuration = Configuration()
        load: Callable[..., None] = load_kube_config
        # The library takes any YAML for a kubeconfig: where it is none, it fails as its own code happens to.
        unusable = (ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError)
        try:
            load(str(path) if path else None, context, configuration, persist_config=False)
            return ServerAccess(
                configuration.host,
                configuration.api_key.get("BearerToken", ""),
                _tls(configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file, configuration.verify_ssl),
                configuration.tls_server_name,
                configuration.proxy,
            )
        except unusable as error:
            reason = " ".join(str(error).split())
            raise _unreadable(f"the kubeconfig {path or os.environ.get('KUBECONFIG', '~/.kube/config')}: {reason}") from error

    return Credentials(read)


@lru_cache(maxsize=4)
def _trusting(authority: str) -> ssl.SSLContext:
    """Return one TLS context for each CA, so that connections outlive a token."""
    return ssl.create_default_context(cadata=authority)


def _tls(authority: str | None, certificate: str | None, key: str | None, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


def _unreadable(what: str) -> Halt:
    return Halt(Stalled("CredentialsUnreadable", f"cannot read {what}", "Operator"))
