"""The clusters on which engines run: this one, and those that a Region's kubeconfig names.

A kubeconfig comes from a Secret and is no program: what would run a command, read a file or trust anybody is refused.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tenantry.adapters.kubernetes.client.credentials import Credentials, ServerAccess
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.model.facts import Password
from tenantry.model.verdicts import Halt, Stalled
from tenantry.packages.yaml_depth import deep_line

DEEPEST = 64
_USER_FIELDS = frozenset({"token", "client-certificate-data", "client-key-data"})
_CLUSTER_FIELDS = frozenset({"server", "certificate-authority-data", "tls-server-name"})


class Clusters:
    """Clients by region. own: of the cluster that the platform runs on."""

    def __init__(self, own: Client) -> None:
        self.own = own
        self._remote: dict[str, tuple[str, Client]] = {}
        self._replaced: list[Client] = []

    def remote(self, region: str, kubeconfig: Password) -> Client:
        """The client of a region; another one when its kubeconfig has changed. Raises a Stalled Halt (KubeconfigRefused)."""
        held = self._remote.get(region)
        if held is not None and held[0] == kubeconfig.fingerprint:
            return held[1]
        access = access_of(kubeconfig.clear)
        client = Client(Credentials(lambda: access))
        if held is not None:
            self._replaced.append(held[1])  # requests of other passes may be under way on it
        self._remote[region] = (kubeconfig.fingerprint, client)
        return client

    async def close(self) -> None:
        """Ends the connections of all."""
        remote = [client for _, client in self._remote.values()]
        for client in (*remote, *self._replaced, self.own):
            await client.close()


def access_of(kubeconfig: str) -> ServerAccess:
    """Return the access of a kubeconfig's current context. Raises a Stalled Halt (KubeconfigRefused) that names the field."""
    if line := deep_line(kubeconfig, DEEPEST):
        raise _refused(f"line {line} is nested deeper than {DEEPEST} levels")
    try:
        config = yaml.safe_load(kubeconfig)
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise _refused(f"it is not a kubeconfig with a current context: {error!r}") from error
    _only(cluster, _CLUSTER_FIELDS, "cluster")
    _only(user, _USER_FIELDS, "user")
    if not str(cluster.get("server", "")).startswith("https://"):
        raise _refused("cluster.server: must be an https:// URL")
    token = user.get("token")
    authorization = f"Bearer {token}" if token else ""
    return ServerAccess(str(cluster["server"]), authorization, _tls(cluster, user), cluster.get("tls-server-name"))


def _named(config: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(each for each in config[section] if each["name"] == name)
    return found


def _only(given: Any, allowed: frozenset[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise _refused(f"{where}: must be a mapping")
    others = sorted(map(str, set(given) - allowed))
    if others:
        raise _refused(f"{where}.{others[0]}: not allowed here; allowed are {', '.join(sorted(allowed))}")
    for field, value in given.items():
        if not isinstance(value, str):
            raise _refused(f"{where}.{field}: must be a string")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            pair = base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"])
            _load(context, pair)
    except KeyError as error:
        raise _refused(f"{error.args[0]}: is required") from error
    except (ValueError, ssl.SSLError) as error:
        raise _refused(f"its certificates cannot be read: {error}") from error
    return context


def _load(context: ssl.SSLContext, pair: bytes) -> None:
    """By a file, for the ssl module knows no other way; it is the owner's alone and gone at once."""
    descriptor, path = tempfile.mkstemp(".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()


def _refused(reason: str) -> Halt:
    return Halt(Stalled("KubeconfigRefused", f"the region's kubeconfig: {reason}", "Operator"))
