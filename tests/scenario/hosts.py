"""A platform that runs, on one machine or on a cluster, as its users reach it: the command line and REST."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import yaml

from tests.scenario.cli import PATIENCE_S

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
Object = dict[str, Any]


@dataclass
class Host:
    """cli: `tenantry` speaking to it. url, token: of its facade, for a SUPERUSER."""

    cli: Cli
    url: str
    token: str

    def apply(self, *documents: Object) -> None:
        """`tenantry apply` of what is given."""
        self("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def __call__(self, *arguments: object, stdin: str = "") -> str:
        """The output of a command that succeeds."""
        done = self.cli(*map(str, arguments), stdin=stdin)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def objects(self, kind: str) -> list[Object]:
        """All of a kind, in every namespace."""
        found: list[Object] = json.loads(self("get", kind, "-o", "json"))
        return found

    def get(self, kind: str, namespace: str, name: str) -> Object:
        found: Object = json.loads(self("get", kind, name, *(("-n", namespace) if namespace else ()), "-o", "json"))
        return found

    def rest(self, method: str, path: str, token: str = "", **options: Any) -> httpx.Response:
        """A request of the SUPERUSER, or of whose token is given."""
        headers = {"Authorization": f"Bearer {token or self.token}", **options.pop("headers", {})}
        return httpx.request(method, f"{self.url}/api/v1{path}", headers=headers, timeout=2 * PATIENCE_S, **options)

    def signed_in(self, username: str, password: str) -> str:
        """A person's own token."""
        answer = httpx.post(f"{self.url}/api/v1/auth/token", data={"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


def object_(kind: str, namespace: str, name: str, **spec: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def condition(document: Object, type_: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition at its object's current generation."""
    status, generation = document.get("status", {}), document["metadata"]["generation"]
    for each in status.get("conditions", ()):
        if each["type"] == type_ and each.get("observedGeneration") == generation:
            return each["status"], each.get("reason", ""), each.get("message", "")
    return "", "", ""
