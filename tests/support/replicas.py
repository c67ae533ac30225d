"""Several replicas of the api on one cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from copy import copy
from typing import Any, NamedTuple

from tests.cluster.running import Kube, token, token_of

VERSION = "Tenantry-Version"


class Answer(NamedTuple):
    status: int
    body: Any
    version: str


class Replicas:
    """The URLs of both, asked as the bootstrap SUPERUSER."""

    def __init__(self, urls: tuple[str, str], kube: Kube) -> None:
        self._urls = urls
        self._token = token(urls[0], kube)

    def as_(self, username: str, password: str) -> Replicas:
        """The same ones, asked as somebody else."""
        other = copy(self)
        other._token = token_of(self._urls[0], username, password)
        return other

    def ask(self, which: int, method: str, path: str, body: object = None, version: str = "") -> Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers |= {VERSION: version} if version else {}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._urls[which]}/api/v1{path}", sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                told = answer.read()
                return Answer(answer.status, json.loads(told) if told else None, answer.headers.get(VERSION, ""))
        except urllib.error.HTTPError as refusal:
            return Answer(refusal.code, json.load(refusal), "")
