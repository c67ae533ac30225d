"""A dry run of a request that would be refused answers the refusal: the same code, the same words, and nothing is written."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

import tenantry.api
from tenantry.api.app import create_app
from tenantry.model.resource import SOURCE, SOURCE_FILE, Ref
from tenantry.model.verdicts import Halt
from tenantry.rest.problems import answer_halt
from tests.scenario.rest_world import BASE, PASSWORD, SHORT_WAIT, World, declare, world_in
from tests.support.published_packages import FAX, package

API = Path(inspect.getfile(tenantry.api)).parent
WAKING = API / "waking"
"""A server of its own, at another port: it plans nothing."""
ADMIN, ROOT = "acme-admin", "root"
ABSENT = "00000000-0000-4000-8000-000000000000"
MUST = "{name: must, type: text, nullable: false}"
IDP = {"name": "corp", "issuer_url": "https://id.example.com", "client_id": "tenantry"}
NEW = {"name": "New", "slug": "new", "region": "here"}
PERSON = {"username": "fresh", "password": PASSWORD, "type": "VIEWER"}
HELD = ["example.com/held"]
FORMS = {"labels": {SOURCE: "main"}, "annotations": {SOURCE_FILE: "acme.yaml:3"}}
UNPLANNED = {
    # Reads, and what no request with a valid body can reach.
    "auth/authentication.py", "reading/read_fast_path.py", "reading/versions.py", "webhooks.py", "platform/blobs.py",
    "auth/trusted_issuers.py", "http/bodies.py", "cloud/sign_in.py",
    "facade_context.py:answer_plan",  # the plan itself
    "cloud/plans.py:make", "cloud/environments.py:check_slug", "cloud/tenants.py:check_slug", "engine/apps.py:_bytes",
    "engine/apps.py:_symbols", "writing/turns.py", "cloud/operations.py:_filters",
    "cloud/operations.py:_time",
    # Another request was faster: the table has one at a time.
    "writing/writes.py:remove", "writing/writes.py:create_by_slug", "engine/providers.py:_create",
    "engine/identities.py:_create",
    "cloud/users.py:_create", "cloud/users.py:_stored", "writing/preconditions.py:check_plan", "cloud/environments.py:_bound",
    # Only after a write: an engine that is slow, or that fails.
    "engine/engine_request.py:_refusal", "engine/engine_request.py:_ready", "engine/engine_request.py:_outcome",
    "engine/engine_request.py:_concluded",
    "platform/app_rows.py:check", "platform/app_rows.py:shown",  # they only read
    "engine/engine_request.py:_check_whole",  # test_damaged_engines.py asks for its plan
    "engine/engine_request.py:perform",
    "engine/engine_request.py:_again", "engine/identities.py:_set_admin_password",
    "engine/identities.py:write",
    # Only after a long time.
    "facade_context.py:in_turn",
    # A plan as an answer.
    "facade_context.py:make",
    # A page of the console asks: its plans have a suite of their own.
    "cloud/declarations.py", "platform/reconcile_controls.py", "platform/backups.py", "engine/publishing.py:facts",
    "auth/one_time_codes.py",
    # A namespace that lost its tenant a moment ago.
    "engine/admin.py:of",
}  # fmt: skip
"""Modules, and functions of one, whose raises in facade code the table need not reach."""


class Refused(NamedTuple):
    """One request that is refused. said: a part of the reason."""

    name: str
    user: str
    method: str
    path: str
    said: str
    options: dict[str, Any] = {}
    status: int = 400


def cloud(ids: dict[str, str]) -> Iterator[Refused]:
    environments = "/environments"
    yield Refused("no tenant", ROOT, "POST", environments, "tenantId: is required", {"json": NEW})
    foreign = f"{environments}?tenantId={ids['globex']}"
    yield Refused("foreign tenant", ADMIN, "POST", foreign, "no such tenant", {"json": NEW})
    absent = f"{environments}?tenantId={ABSENT}"
    yield Refused("unknown tenant", ROOT, "POST", absent, "no such tenant", {"json": NEW})
    for name, change, said in (
        ("ill-formed slug", {"slug": "A_b"}, "slug: must have 1 to 30"),
        ("reserved slug", {"slug": "api"}, "is reserved"),
        ("taken slug", {"slug": "dev"}, "is taken"),
        ("unknown region", {"region": "nowhere"}, "no such region"),
        ("closed region", {"region": "reserved"}, "no such region"),
        ("no name", {"name": ""}, "name: "),
    ):
        yield Refused(name, ADMIN, "POST", environments, said, {"json": NEW | change})
    yield Refused("quota", "full-admin", "POST", environments, "quota is reached", {"json": NEW})
    yield Refused("viewer", "acme-viewer", "POST", environments, "may only read", {"json": NEW}, 403)
    yield Refused("bad key", ADMIN, "POST", environments, "Idempotency-Key", {"json": NEW, "headers": {"Idempotency-Key": ""}})
    used = {"json": NEW, "headers": {"Idempotency-Key": "used"}}
    yield Refused("used key", ADMIN, "POST", environments, "was used for another request", used)
    yield Refused("going tenant", ROOT, "POST", f"{environments}?tenantId={ids['going']}", "being deleted", {"json": NEW})
    one = f"{environments}/{ids['dev']}"
    yield Refused("absent environment", ADMIN, "PUT", f"{environments}/{ABSENT}", "no environment", {"json": NEW}, 404)
    yield Refused("empty edit", ADMIN, "PUT", one, "must carry", {"json": {}})
    yield Refused("awake", ADMIN, "POST", f"{one}/wake", "does not sleep")
    yield Refused("edit to a taken slug", ADMIN, "PUT", one, "is taken", {"json": {"slug": "prot"}})
    moved = {"json": {"name": "x"}, "headers": {"If-Match": '"99"'}}
    yield Refused("edit of another generation", ADMIN, "PUT", one, "generation", moved, 412)
    bad_plan = {"json": {"name": "x"}, "headers": {"If-Plan": "nonsense"}}
    yield Refused("a digest that is none", ADMIN, "PUT", one, "If-Plan", bad_plan)
    yield Refused(
        "edit while deleted", ADMIN, "PUT", f"{environments}/{ids['leaving']}", "being deleted", {"json": {"name": "x"}}
    )
    yield Refused("declared", ADMIN, "PUT", f"{environments}/{ids['declared']}", "acme.yaml:3", {"json": {"name": "x"}})
    yield Refused("declared, deleted", ADMIN, "DELETE", f"{environments}/{ids['declared']}", "acme.yaml:3")
    yield Refused("protected", ADMIN, "DELETE", f"{environments}/{ids['prot']}", "is protected")
    yield Refused("ended operation", ADMIN, "POST", f"/operations/{ids['operation']}/cancel", "has ended")
    yield Refused("deletion", ADMIN, "POST", f"/operations/{ids['deletion']}/cancel", "cannot be cancelled")
    yield Refused("other bytes", ADMIN, "PUT", f"/packages/{'0' * 64}", "the bytes' own", {"content": ids["bytes"]})
    for name, header, said in (
        ("signature that is none", "!", "must be a .minisig"),
        ("long signature", "QUJD" * 3000, "at most"),
        ("signature of nothing", "QUJD", "declare it first"),
    ):
        options = {"content": ids["bytes"], "headers": {"Tenantry-Signature": header}}
        yield Refused(name, ADMIN, "PUT", f"/packages/{ids['sha256']}", said, options)


def superusers(ids: dict[str, str]) -> Iterator[Refused]:
    yield Refused("forbidden", ADMIN, "POST", "/tenants", "SUPERUSER", {"json": NEW}, 403)
    yield Refused("taken tenant slug", ROOT, "POST", "/tenants", "is taken", {"json": {"name": "A", "slug": "acme"}})
    yield Refused("tenant moved", ROOT, "PUT", f"/tenants/{ids['acme']}", "is taken", {"json": {"slug": "globex"}})
    yield Refused("tenant going", ROOT, "PUT", f"/tenants/{ids['going']}", "being deleted", {"json": {"name": "x"}})
    yield Refused("tenant protected", ROOT, "DELETE", f"/tenants/{ids['guarded']}", "is protected")
    yield Refused("tenant with protected", ROOT, "DELETE", f"/tenants/{ids['acme']}", "environment prot is protected")
    yield Refused("absent tenant", ROOT, "DELETE", f"/tenants/{ABSENT}", "no tenant", {}, 404)
    for name, change, said in (
        ("username", {"username": "a b"}, "username: "),
        ("type", {"type": "KING"}, "type: must be one of"),
        ("tenant of a superuser", {"type": "SUPERUSER", "tenantId": ids["acme"]}, "must not be given"),
        ("nobody's", {}, "tenantId: is required"),
        ("unknown tenant's", {"tenantId": ABSENT}, "no such tenant"),
        ("going tenant's", {"tenantId": ids["going"]}, "being deleted"),
        ("taken username", {"username": "ACME-admin", "tenantId": ids["acme"]}, "is taken"),
        ("short password", {"password": "short", "tenantId": ids["acme"]}, "password"),
    ):
        yield Refused(f"user: {name}", ROOT, "POST", "/users", said, {"json": PERSON | change})
    yield Refused("empty edit of a user", ROOT, "PUT", f"/users/{ids['user']}", "must carry", {"json": {}})
    yield Refused("role that is none", ROOT, "PUT", f"/users/{ids['user']}", "must be one of", {"json": {"type": "KING"}})
    yield Refused("absent user", ROOT, "DELETE", f"/users/{ABSENT}", "no user", {}, 404)


def engine(ids: dict[str, str]) -> Iterator[Refused]:
    at = f"/engines/{ids['dev']}/api/v1/admin"
    apps, people, providers = f"{at}/apps", f"{at}/identities", f"{at}/idps/external"
    yield Refused("loses data, published", ADMIN, "POST", f"{apps}/publish", "drops column contacts.fax", package("4.0.0"))
    yield Refused("loses data, installed", ADMIN, "POST", f"{apps}/crm/install/2.0.0", "drops column contacts.fax")
    yield Refused(
        "rows do not fit", ADMIN, "POST", f"{apps}/crm/install/3.0.0?allow_drops=true", "impossible with the existing rows"
    )
    yield Refused("no package", ADMIN, "POST", f"{apps}/upload", "", {"files": {"file": ("x", b"no zip")}})
    yield Refused(
        "other bytes", ADMIN, "POST", f"{apps}/upload", "other bytes", package("1.0.0", FAX, "{name: other, type: text}")
    )
    yield Refused("no version", ADMIN, "POST", f"{apps}/crm/install/9.9.9", "no version", {}, 404)
    yield Refused("no app", ADMIN, "POST", f"{apps}/other/uninstall", "no application", {}, 404)
    yield Refused("not installed", ADMIN, "POST", f"{ids['bare']}/apps/crm/uninstall", "is not installed")
    yield Refused("installed version", ADMIN, "DELETE", f"{apps}/crm/1.0.0", "is installed")
    yield Refused("data of what is installed", ADMIN, "POST", f"{apps}/crm/drop-data", "uninstall it first")
    yield Refused("not signed", ADMIN, "POST", f"{ids['signing']}/apps/publish", "is not signed", package("1.0.0", FAX))
    yield Refused("leaving", ADMIN, "POST", f"/engines/{ids['leaving']}/api/v1/admin/identities", "being deleted", {"json": {}})
    person = {"username": "eve", "password": PASSWORD}
    for name, change, said in (
        ("name", {"username": "e ve"}, "username: "),
        ("admin", {"username": "Admin"}, "the engine's own"),
        ("taken", {"username": "BOB"}, "is taken"),
        ("short", {"password": "short"}, "password"),
    ):
        yield Refused(f"identity: {name}", ADMIN, "POST", people, said, {"json": person | change})
    yield Refused("admin's end", ADMIN, "DELETE", f"{people}/admin", "cannot be deleted")
    yield Refused("nobody", ADMIN, "PUT", f"{people}/nobody", "no identity", {"json": {"password": PASSWORD}}, 404)
    yield Refused("short", ADMIN, "PUT", f"{people}/bob", "password", {"json": {"password": "short"}})
    yield Refused("admin's short", ADMIN, "PUT", f"{people}/admin", "password", {"json": {"password": "short"}})
    yield Refused("taken name", ADMIN, "POST", providers, "is taken", {"json": IDP})
    yield Refused("no URL", ADMIN, "POST", providers, "issuer_url", {"json": IDP | {"name": "x", "issuer_url": "x"}})
    yield Refused("empty edit", ADMIN, "PUT", f"{providers}/{ids['provider']}", "must carry", {"json": {}})
    yield Refused(
        "edit to a taken name", ADMIN, "PUT", f"{providers}/{ids['provider']}", "is taken", {"json": {"name": "second"}}
    )
    long = {"name": "x" * 300}
    yield Refused("long name", ADMIN, "POST", providers, "name: ", {"json": IDP | long})
    yield Refused("edit to a long name", ADMIN, "PUT", f"{providers}/{ids['provider']}", "name: ", {"json": long})
    stuck = f"{ids['stuck']}/apps"
    yield Refused("stalled and unchanged", ADMIN, "POST", f"{stuck}/upload", "drops column contacts.fax", package("2.0.0"))
    yield Refused("stalled and changed", ADMIN, "POST", f"{stuck}/upload", "drops column contacts.fax", package("6.0.0", FAX))
    yield Refused("absent provider", ADMIN, "DELETE", f"{providers}/{ABSENT}", "no identity provider", {}, 404)


async def declared_things(world: World) -> dict[str, str]:
    """A platform in which each refusal has its reason; the ids of what is there."""
    platform, ids = world.platform, {}
    for slug in ("acme", "globex", "full"):
        ids[slug] = await world.tenant(slug)
    await declare(platform, "Region", "reserved", {"tenants": ["globex"]})
    await declare(platform, "Tenant", "guarded", {"deletionProtection": True})
    await declare(platform, "Tenant", "going", {}, finalizers=HELD)
    await platform.converged()
    await change(world, Ref("Tenant", "", "full"), quota={"environments": 0})
    for slug in ("dev", "bare", "leaving", "declared", "prot", "signing", "stuck"):
        spec: dict[str, Any] = {"region": "here", "deletionProtection": slug == "prot"}
        more: dict[str, Any] = FORMS if slug == "declared" else {}
        if slug == "signing":
            spec["packageKeys"] = ["RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"]
        await declare(platform, "Environment", slug, spec, "tenant-acme", **more)
    await declare(platform, "App", "leaving.held", {"environment": "leaving", "app": "held"}, "tenant-acme", finalizers=HELD)
    await platform.converged()
    listed = (await world(ADMIN, "GET", "/environments")).json()
    ids |= {one["slug"]: one["id"] for one in listed}
    tenants = (await world(ROOT, "GET", "/tenants")).json()
    ids |= {one["slug"]: one["id"] for one in tenants if one["slug"] in ("guarded", "going")}
    gone = await world(ADMIN, "DELETE", f"/environments/{ids['leaving']}")
    await world(ROOT, "DELETE", f"/tenants/{ids['going']}")
    ids["deletion"] = gone.json()["operation_id"]
    at = f"/engines/{ids['dev']}/api/v1/admin"
    ids |= {slug: f"/engines/{ids[slug]}/api/v1/admin" for slug in ("bare", "signing", "stuck")}
    for path, options in (
        (f"{at}/apps/publish", package("1.0.0", FAX)),
        (f"{at}/apps/upload", package("2.0.0")),
        (f"{at}/apps/upload", package("3.0.0", FAX, MUST)),
        (f"{ids['bare']}/apps/upload", package("1.0.0", FAX)),
        (f"{ids['stuck']}/apps/publish", package("1.0.0", FAX)),
        (f"{at}/identities", {"json": {"username": "bob", "password": PASSWORD}}),
        (f"{at}/idps/external", {"json": IDP}),
        (f"{at}/idps/external", {"json": IDP | {"name": "second"}}),
    ):
        made = await world(ADMIN, "POST", path, **options)
        assert made.status_code == 200, made.text
        if made.json().get("name") == "corp":
            ids["provider"] = made.json()["id"]
    used = {"headers": {"Idempotency-Key": "used"}, "json": NEW | {"slug": "keyed"}}
    keyed = await world(ADMIN, "POST", "/environments", **used)
    assert keyed.status_code == 202, keyed.text
    await change(world, Ref("App", "tenant-acme", "stuck.crm"), version="2.0.0")
    await platform.converged()
    ids["operation"] = keyed.json()["operation_id"]
    ids["user"] = (await world("acme-viewer", "GET", "/auth/me")).json()["sub"]
    return ids


async def change(world: World, ref: Ref, **fields: Any) -> None:
    """Edits a declaration, as kubectl would."""
    document = await world.platform.state.writing.get(ref)
    changed = {**document, "spec": {**document["spec"], **fields}}
    await world.platform.state.writing.replace(changed, document["metadata"]["resourceVersion"])


def raised_at(trace: TracebackType | None) -> set[str]:
    """The functions of the facade that an error passed through, as `module:function`."""
    found = set()
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(API):
            found.add((path, trace.tb_lineno))
        trace = trace.tb_next
    return {f"{path.relative_to(API)}:{line}" for path, line in found}


def raises() -> dict[str, str]:
    """Every `raise` of the facade: its `module:function`, by `module:line`."""
    found = {}
    for path in API.rglob("*.py"):
        if path.is_relative_to(WAKING):
            continue
        module = path.relative_to(API)
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Raise) and node.exc is not None:
                        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                            found[f"{module}:{line}"] = f"{module}:{function.name}"
    return found


@asynccontextmanager
async def recording(tmp_path: Path) -> AsyncIterator[tuple[World, set[str]]]:
    """A platform whose refusals leave a mark of where in the facade they were raised."""
    seen: set[str] = set()

    async def on_halt(request: Request, error: Exception) -> Response:
        assert isinstance(error, Halt)
        seen.update(raised_at(error.__traceback__))
        return answer_halt(request, error)

    async with world_in(tmp_path, **SHORT_WAIT) as world:
        app = create_app(world.platform.facade)
        app.add_exception_handler(Halt, on_halt)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
            world.http = http
            yield world, seen


async def answered(world: World, refused: Refused, dry: bool) -> tuple[int, str]:
    joined = "&" if "?" in refused.path else "?"
    path = f"{refused.path}{joined}dryRun=true" if dry else refused.path
    answer = await world(refused.user, refused.method, path, **refused.options)
    return answer.status_code, answer.json().get("error", answer.text)


@pytest.mark.slow
async def test_a_dry_run_answers_each_refusal_as_the_request_does_and_writes_nothing(tmp_path: Path) -> None:
    async with recording(tmp_path) as (world, seen):
        ids = await declared_things(world)
        raw = package("5.0.0", FAX)["files"]["file"][1]
        ids |= {"bytes": raw, "sha256": hashlib.sha256(raw).hexdigest()}
        differing, unexpected, written = {}, {}, []
        for refused in (*cloud(ids), *superusers(ids), *engine(ids)):
            version = world.platform.state.store.version
            dry = await answered(world, refused, dry=True)
            if world.platform.state.store.version != version:
                written.append(refused.name)
            real = await answered(world, refused, dry=False)
            if dry != real:
                differing[refused.name] = {"dry run": dry, "request": real}
            if real[0] != refused.status or refused.said not in real[1]:
                unexpected[refused.name] = real
        everywhere = raises()
        functions = {function for line, function in everywhere.items() if line in seen}
        missed = {each for each in everywhere.values() if not {each, each.partition(":")[0]} & UNPLANNED} - functions
    assert differing == {}
    assert unexpected == {}
    assert written == []
    assert missed == set(), "a refusal of the facade that no row reaches"
