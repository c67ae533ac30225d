"""Whatever bytes come in, there are two outcomes only: a value, or a refusal that says what is wrong."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenantry.adapters.local.archives import ABOUT, RESOURCES
from tenantry.adapters.local.reading import read
from tenantry.adapters.sources.documents import declare
from tenantry.adapters.sources.sops import Sops
from tenantry.adapters.store.memory import MemoryStore
from tenantry.api.webhooks import DeclaredWebhooks, Webhook, Webhooks, add_webhook
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import Document
from tenantry.model.tree import SourceProblem
from tenantry.model.verdicts import Invalid
from tenantry.packages.parsing import parse_manifest
from tenantry.rest.apps.plain import PlainApp
from tenantry.runtime.cache import Cache
from tests.unit.kinds.factories import NOW

FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
ADMISSION = Admission()
SECRET = b"a secret of a webhook"
OVERFLOW = ":".join("1" * 200) + ":1.5"
TOKENS = (
    *(
        "a",
        "name",
        "id",
        "kind",
        "spec",
        "metadata",
        "tables",
        "columns",
        "default",
        "apiVersion: tenantry.dev/app/v1",
        "version",
    ),
    *(": ", ":", "- ", "? ", "\n", "\n  ", "\n    ", ", ", "[", "]", "{", "}", "|\n", ">-\n", "---\n", "...\n", "# x\n", "\t"),
    *("&a ", "*a", "<<: ", "!!float ", "!!timestamp ", "!!bool ", "!!binary ", "!!set ", "!!omap ", "!!map ", "!x ", "%YAML 9\n"),
    *(
        "'",
        '"',
        "\\",
        '"\\0"',
        '"\\ud800"',
        "\0",
        "\ufeff",
        "\u2028",
        "\u202e",
        "\ud7ff",
        "\U0001f600",
        "=",
        "~",
        "null",
        "yes",
        "y",
    ),
    *(OVERFLOW, "-" + OVERFLOW, "1:1:1", "0x", "0b_", "08", "1_0", ".5", "1e999", ".inf", "-.inf", ".nan", "9" * 5000, "+1", "-"),
    *("2024-13-45", "0001-01-01 00:00:00 +23:59", "9999-12-31T23:59:59-23:59", "2024-01-01", "12:30:45.678"),
)
YAMLISH = st.lists(st.sampled_from(TOKENS), max_size=40).map(lambda parts: "".join(parts).encode())
BYTES = st.one_of(YAMLISH, st.binary(max_size=400), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from((10**400, 2**63, OVERFLOW, "\0"))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3))
)
GOOD: tuple[dict[str, Any], ...] = (
    {"kind": "Tenant", "metadata": {"name": "acme"}, "spec": {"slug": "acme"}},
    {"kind": "Environment", "metadata": {"name": "dev", "namespace": "tenant-acme"}, "spec": {"region": "eu", "slug": "dev"}},
    {"kind": "App", "metadata": {"name": "dev.crm", "namespace": "tenant-acme"}, "spec": {"environment": "dev", "app": "crm"}},
    {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s", "namespace": "tenant-acme"}, "stringData": {"a": "b"}},
    {"kind": "Source", "metadata": {"name": "s", "namespace": "tenant-acme"}, "spec": {"url": "https://git.example/a/b"}},
    {"kind": "User", "metadata": {"name": "ada"}, "spec": {"role": "SUPERUSER"}},
    {"kind": "List", "items": [{"kind": "Tenant", "metadata": {"name": "acme"}, "spec": {}}]},
)
GRAFTS = (
    *((), ("kind",), ("apiVersion",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "labels")),
    *(("metadata", "annotations"), ("spec",), ("spec", "slug"), ("spec", "x"), ("items",), ("stringData",), ("status",)),
)


@pytest.mark.slow
@FUZZ
@example(f"name: {OVERFLOW}".encode())
@example(b'x: !!float ""')
@example(b"? [a]\n: 1")
@given(BYTES)
def test_bytes_to_a_manifest(raw: bytes) -> None:
    with suppress(Invalid):
        parse_manifest(raw)


@pytest.mark.slow
@FUZZ
@given(st.sampled_from(("id", "name", "author", "version", "tables", "roles", "defaultRole", "x")), VALUES)
def test_values_to_a_manifest(field: str, value: Any) -> None:
    made = {"apiVersion": "tenantry.dev/app/v1", "id": "crm", "name": "CRM", "version": "1.0.0", field: value}
    with suppress(Invalid):
        parse_manifest(json.dumps(made).encode())


def declared(raw: bytes) -> None:
    problems: list[SourceProblem] = []

    def admit(document: Document) -> Document:
        return ADMISSION.admit(document, None)

    declare([("a.yaml", raw)], admit, Sops(), problems)
    assert not [problem for problem in problems if "a bug" in str(problem)], problems
    assert all(problem.problem.reason for problem in problems)


@pytest.mark.slow
@FUZZ
@example(f"name: {OVERFLOW}".encode())
@given(BYTES)
def test_yaml_to_documents(raw: bytes) -> None:
    declared(raw)


@pytest.mark.slow
@FUZZ
@given(st.sampled_from(GOOD), st.sampled_from(GRAFTS), VALUES)
def test_values_to_documents(good: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    declared(json.dumps(grafted({"apiVersion": "tenantry.dev/v1alpha1", **good}, path, value)).encode())


def grafted(document: Any, path: tuple[str, ...], value: Any) -> Any:
    """The document with another value at a path."""
    if not path:
        return value
    inner = document.get(path[0], {}) if isinstance(document, dict) else {}
    return {**document, path[0]: grafted(inner if isinstance(inner, dict) else {}, path[1:], value)}


ABOUTS = st.one_of(
    VALUES,
    st.fixed_dictionaries({}, optional=dict.fromkeys(("format", "namespace", "name", "id", "takenAt", "database"), VALUES)),
).map(lambda value: json.dumps(value).encode())


@pytest.mark.slow
@FUZZ
@given(st.one_of(BYTES, ABOUTS), BYTES)
def test_archives_to_an_engine(about: bytes, resources: bytes) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, content in ((ABOUT, about), (RESOURCES, resources)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    reads(file.getvalue())


@FUZZ
@given(st.binary(max_size=2000))
def test_bytes_to_an_archive(raw: bytes) -> None:
    reads(raw)


def reads(raw: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        with suppress(Invalid):
            read(Path(file.name))


HEADERS = ("X-GitHub-Event", "X-Gitlab-Event", "X-Gitea-Event")
URLS = st.one_of(
    st.text(max_size=30), st.sampled_from(("http://[", "git@[::1:a", "//", ":", "https://git.example/a/b", "\ud7ff@:"))
)
PARTS = st.dictionaries(st.sampled_from(("clone_url", "ssh_url", "url", "homepage")), st.one_of(URLS, VALUES), max_size=3)
PUSHES = st.dictionaries(st.sampled_from(("ref", "repository", "project")), st.one_of(PARTS, VALUES, URLS), max_size=3)
BODIES = st.one_of(BYTES, st.one_of(PUSHES, VALUES).map(lambda value: json.dumps(value).encode()))


@pytest.mark.slow
@FUZZ
@given(BODIES, st.sampled_from(HEADERS), st.sampled_from(("push", "ping", "Push Hook", "\xe9", "")), st.booleans())
def test_webhooks_to_an_event(raw: bytes, header: str, event: str, signed: bool) -> None:
    asked: list[str] = []

    async def ask() -> None:
        asked.append("")

    async def post() -> int:
        app = PlainApp("Webhooks", (), lambda inner: inner)
        cache, none = Cache(TYPES), MemoryStore(ADMISSION)
        own = Webhook(SECRET, "https://git.example/a/b.git", "", ask)
        add_webhook(app, Webhooks(own, DeclaredWebhooks(cache, none, None, lambda: NOW)))  # type: ignore[arg-type]
        signature = hmac.new(SECRET, raw, hashlib.sha256).hexdigest() if signed else "\xe9"
        headers = {header.encode(): event.encode("latin-1"), b"X-Hub-Signature-256": f"sha256={signature}".encode("latin-1")}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            return (await http.post("/api/v1/webhooks/git", content=raw, headers=headers)).status_code

    status = asyncio.run(post())
    assert status in ((202, 204, 400) if signed else (401,))
    assert bool(asked) == (status == 202)
