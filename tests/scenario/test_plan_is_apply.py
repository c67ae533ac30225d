"""What a plan says is what applying then does: the same edits, effects in the same order, Operations and ends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tenantry.bootstrap import planning
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import KINDS
from tenantry.model.resource import SOURCE, Document, Ref
from tenantry.runtime.cache import Cache
from tenantry.runtime.cycle import Ended
from tenantry.runtime.planned import Planned
from tests.crash.campaign import URL, copy_of
from tests.crash.story import object_

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
author: Example Ltd
version: {version}
tables:
  - name: contacts
    primaryKey: [id]
    columns:
      - {{name: id, type: integer, generated: true}}
{columns}
roles:
  reader: {{contacts: [read]}}
"""
FAX = "      - {name: fax, type: string, length: 20}\n"
PHONE = "      - {name: phone, type: string, length: 20}\n"
COLUMNS = {"1.0.0": FAX, "1.1.0": FAX + PHONE, "2.0.0": PHONE}
SOURCE_NAME = "default"

Documents = Mapping[str, str]


def acme(kind: str, name: str, spec: str) -> str:
    return object_(kind, name, spec, "acme")


def tenant(spec: str) -> str:
    return object_("Tenant", "acme", spec)


def environment(name: str, spec: str = "") -> str:
    return acme("Environment", name, f"{{region: eu, deletionPolicy: Delete{spec}}}")


def package(version: str) -> str:
    spec = f"{{app: crm, version: {version}, source: {{path: crm-{version}}}}}"
    return acme("Package", f"crm-{version.replace('.', '-')}", spec)


def app(environment_: str, spec: str) -> str:
    return acme("App", f"{environment_}.crm", f"{{environment: {environment_}, app: crm, {spec}}}")


def secret(name: str, purpose: str, password: str, namespace: str = "tenant-acme") -> str:
    metadata = f"{{name: {name}, namespace: {namespace}, labels: {{tenantry.dev/credential: {purpose}}}}}"
    return f"\napiVersion: v1\nkind: Secret\nmetadata: {metadata}\nstringData: {{password: {password}}}\n"


def identity(more: str = "") -> str:
    return acme("Identity", "ann", f"{{environment: dev, username: ann, passwordSecretRef: {{name: ann}}{more}}}")


def provider(more: str = "") -> str:
    return acme("IdentityProvider", "corp", f"{{environment: dev, issuerUrl: 'https://issuer.example', clientId: dev{more}}}")


def user(more: str = "") -> str:
    spec = f"{{username: vera, role: VIEWER, tenant: acme, passwordSecretRef: {{name: vera}}{more}}}"
    return object_("User", "vera", spec).replace("{name: vera}\n", "{name: vera, namespace: tenantry-system}\n", 1)


BASE: dict[str, str] = {
    "region": object_("Region", "eu", "{}"),
    "tenant": tenant("{displayName: Acme}"),
    "dev": environment("dev"),
    "live": environment("live"),
    "spare": environment("spare"),
    **{version: package(version) for version in COLUMNS},
    "dev.crm": app("dev", "version: 1.0.0"),
    "live.crm": app("live", "version: 1.1.0"),
    "ann's secret": secret("ann", "identity", "a first secret"),
    "ann": identity(),
    "corp's secret": secret("corp", "identity-provider", "a client secret"),
    "corp": provider(", clientSecretRef: {name: corp}"),
    "vera's secret": secret("vera", "user", "another secret", "tenantry-system"),
    "vera": user(),
}

EDITS: dict[str, dict[str, str | None]] = {
    "nothing": {},
    "a tenant is renamed": {"tenant": tenant("{displayName: Acme Ltd}")},
    "a tenant's slug moves all its environments": {"tenant": tenant("{slug: acme-2}")},
    "a second tenant with an environment": {
        "umbra": object_("Tenant", "umbra", "{}"),
        "solo": object_("Environment", "solo", "{region: eu}", "umbra"),
    },
    "a slug that another tenant holds": {"umbra": object_("Tenant", "umbra", "{slug: acme}")},
    "a region's rules refuse an environment": {
        "region": object_("Region", "eu", "{engine: {sizes: [small]}}"),
        "dev": environment("dev", ", engine: {size: huge}"),
    },
    "a region is closed to a tenant": {"region": object_("Region", "eu", "{tenants: [umbra]}")},
    "a region that is in use is removed": {"region": None},
    "an environment's slug": {"dev": environment("dev", ", slug: develop")},
    "an environment's size": {"dev": environment("dev", ", engine: {size: large}")},
    "an environment without its region": {"far": acme("Environment", "far", "{region: us}")},
    "a quota that leaves no room": {"tenant": tenant("{quota: {environments: 3}}"), "extra": environment("extra")},
    "a suspended environment": {"dev": environment("dev", ", suspend: true, slug: develop")},
    "an environment is pruned": {"spare": None},
    "an environment with data is kept": {"dev": None, "dev.crm": None, "ann": None, "corp": None},
    "a source that loses most of its objects keeps them": {name: None for name in BASE if name not in ("region", "tenant")},
    "an app is upgraded": {"dev.crm": app("dev", "version: 1.1.0")},
    "an app is upgraded and keeps the older version": {"dev.crm": app("dev", "version: 1.1.0, keep: [1.0.0]")},
    "an app's drops are refused": {"dev.crm": app("dev", "version: 2.0.0")},
    "an app's drops are allowed": {"dev.crm": app("dev", "version: 2.0.0, allowDropsFor: 2.0.0")},
    "an app is uninstalled": {"dev.crm": app("dev", "keep: [1.0.0]")},
    "an app leaves the source": {"live.crm": None},
    "an app without its package": {"dev.crm": app("dev", "version: 9.9.9")},
    "a package that is in use is removed": {"1.0.0": None},
    "a package that nobody uses is removed": {"2.0.0": None},
    "an identity's password": {"ann's secret": secret("ann", "identity", "a second secret")},
    "an identity's roles": {"ann": identity(", roles: [{app: crm, role: reader}]")},
    "an identity without its secret": {"ann's secret": None},
    "an identity is pruned": {"ann": None},
    "a username that another identity holds": {"ann 2": identity().replace("name: ann,", "name: ann-2,", 1)},
    "a provider is edited": {"corp": provider(", clientSecretRef: {name: corp}, active: false")},
    "a provider's secret": {"corp's secret": secret("corp", "identity-provider", "a new secret")},
    "a provider without a secret any longer": {"corp": provider()},
    "a user's password": {"vera's secret": secret("vera", "user", "yet another secret", "tenantry-system")},
    "a user is renamed": {"vera": user(", displayName: Vera")},
    "a document that is refused": {"dev": environment("dev", ", colour: red")},
    "a region that cannot be changed": {"dev": acme("Environment", "dev", "{region: us}")},
}


def edited(edits: Mapping[str, str | None]) -> Documents:
    return {name: text for name, text in (BASE | edits).items() if text is not None}


def write(folder: Path, documents: Documents) -> Path:
    """Writes a source: every document in a file of its own, so that a broken one breaks no other."""
    folder.mkdir(parents=True)
    for version, columns in COLUMNS.items():
        (folder / f"crm-{version}" / "seed").mkdir(parents=True)
        (folder / f"crm-{version}" / "app.yaml").write_text(APP.format(version=version, columns=columns))
    (folder / "crm-1.0.0" / "seed" / "contacts.ndjson").write_text('{"id": 1, "fax": "1"}\n')
    for number, text in enumerate(documents.values()):
        (folder / f"{number:02}.yaml").write_text(text)
    return folder


@asynccontextmanager
async def platform_on(state: Path) -> AsyncIterator[Platform]:
    """A platform that runs and has come to rest, without a source."""
    platform = await Platform.open(state, URL)
    try:
        await platform.start()
        await platform.converged()
        yield platform
    finally:
        await platform.close()


@dataclass
class Course:
    """What happens to each object: its effects in order, in the words of plan."""

    effects: dict[Ref, list[str]] = field(default_factory=lambda: defaultdict(list))

    def told(self, ref: Ref, ended: Ended) -> None:
        self.effects[ref] += map(str, ended.changes)

    @property
    def done(self) -> dict[Ref, list[str]]:
        return {ref: lines for ref, lines in self.effects.items() if lines}


async def apply(platform: Platform, folder: Path) -> Course:
    """Makes a folder the platform's source, and lets it come to rest."""
    course = Course()
    platform.runtime._told = course.told
    source = platform.attach(folder, SOURCE_NAME)
    await source.sync()
    platform.host.run(source.run, "source")
    await platform.converged()
    return course


async def planned(platform: Platform, folder: Path) -> tuple[Planned, Cache]:
    """The plan, and the objects as they would be."""
    with mock.patch.object(planning, "plan", wraps=planning.plan) as made:
        plan = await platform.plan_source(folder, SOURCE_NAME)
    return plan, made.call_args.args[1].cache


def objects(cache: Cache) -> dict[Ref, dict[str, Any]]:
    return {ref: entry.document() for kind in (*KINDS, "Secret", "Namespace") for ref, entry in cache.entries(kind)}


def declared(documents: Mapping[Ref, Document]) -> dict[Ref, Any]:
    """What stands in the declarations of the source's objects that are not being deleted."""
    return {
        ref: (document.get("spec"), document.get("data"))
        for ref, document in documents.items()
        if document["metadata"].get("labels", {}).get(SOURCE) and not document["metadata"].get("deletionTimestamp")
    }


def signs(before: Mapping[Ref, Document], after: Mapping[Ref, Document]) -> dict[Ref, str]:
    """The edit of each declared object, as plan signs it."""
    had, has = declared(before), declared(after)
    return {
        ref: "+" if ref not in had else "-" if ref not in has else "~"
        for ref in had.keys() | has.keys()
        if had.get(ref) != has.get(ref)
    }


def operations(cache: Cache, known: frozenset[str]) -> list[tuple[Any, ...]]:
    """What the Operations tell that are not known yet, save what differs from run to run: ids and times."""
    found = [one for one in cache.resources("Operation") if isinstance(one, Operation) and one.id not in known]
    return sorted(
        (
            one.spec.target.kind,
            one.spec.target.namespace,
            one.spec.target.name,
            one.spec.action,
            one.spec.subject,
            one.spec.cause,
            one.spec.steps,
            one.status.status,
            one.status.result,
            one.status.code,
        )
        for one in found
    )


def not_ready(documents: Mapping[Ref, Document]) -> dict[Ref, str]:
    """The reason of every object that is not Ready; suspended ones tell of an earlier generation."""
    found = {}
    for ref, document in documents.items():
        conditions = {one["type"]: one for one in document.get("status", {}).get("conditions", ())}
        if ref.kind in KINDS and "Ready" in conditions and conditions["Ready"]["status"] != "True":
            found[ref] = conditions["Ready"]["reason"]
    return found


async def compare(platform: Platform, folder: Path) -> Planned:
    """Plans and applies the folder, and holds the one against the other."""
    before = objects(platform.cache)
    known = frozenset(one.id for one in platform.cache.resources("Operation") if isinstance(one, Operation))
    plan, imagined = await planned(platform, folder)
    assert objects(platform.cache) == before, "a plan does nothing"

    course = await apply(platform, folder)
    after = objects(platform.cache)

    effects: dict[Ref, list[str]] = defaultdict(list)
    for ref, change in plan.effects:
        effects[ref].append(str(change))
    assert effects == course.done
    assert {edit.ref: edit.sign for edit in plan.edits} == signs(before, after)
    assert operations(imagined, known) == operations(platform.cache, known)
    assert {ref: verdict.reason for ref, verdict in plan.verdicts} == not_ready(after)
    assert platform.source is not None
    assert plan.problems == tuple(map(str, platform.source.last.problems))
    kept = [(one.held.ref, one.reason, one.approvable) for one in platform.source.last.kept]
    assert [(one.held.ref, one.reason, one.approvable) for one in plan.kept] == kept
    return plan


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a platform on which BASE was applied."""
    folder = tmp_path_factory.mktemp("base")

    async def make() -> None:
        async with platform_on(folder / "state") as platform:
            await apply(platform, write(folder / "source", BASE))
            assert not_ready(objects(platform.cache)) == {}

    asyncio.run(make())
    return folder / "state"


async def test_everything_at_once(tmp_path: Path) -> None:
    async with platform_on(tmp_path / "state") as platform:
        plan = await compare(platform, write(tmp_path / "source", BASE))
    assert len(plan.edits) == len(BASE)
    assert not plan.verdicts


@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
async def test_a_plan_is_what_applying_does(base: Path, tmp_path: Path, edits: dict[str, str | None]) -> None:
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await compare(platform, write(tmp_path / "source", edited(edits)))


async def test_a_plan_of_what_is_applied_is_empty(base: Path, tmp_path: Path) -> None:
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        assert (await platform.plan_source(write(tmp_path / "source", BASE), SOURCE_NAME)).empty


async def test_a_plan_tells_that_a_secret_changes_and_not_to_what(base: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "source", edited({"ann's secret": secret("ann", "identity", "hunter2")}))
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        plan = await platform.plan_source(source, SOURCE_NAME)
    assert list(map(str, plan.edits)) == ["~ Secret/tenant-acme/ann (data.password)"]
    assert "hunter2" not in repr(plan)


async def test_a_plan_names_the_data_that_would_be_lost(base: Path, tmp_path: Path) -> None:
    allowed = edited({"dev.crm": app("dev", "version: 2.0.0, allowDropsFor: 2.0.0")})
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        plan = await platform.plan_source(write(tmp_path / "source", allowed), SOURCE_NAME)
    assert plan.loses_data
    lines = [str(change) for _, change in plan.effects]
    assert "crm: install 2.0.0, adds column contacts.phone, drops column contacts.fax (losing, 1 rows)" in lines


async def test_an_environment_keeps_rows_whose_app_left_the_source_before(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(folder, edited({"dev.crm": None})))
        source = platform.source
        assert source is not None
        assert {each.held.ref.name: each.reason for each in source.last.kept} == {"dev.crm": "holds data"}
        source.syncer.approve()
        await source.sync()
        await platform.converged()
        assert platform.cache.entry(Ref("App", "tenant-acme", "dev.crm")) is None
        without = {"dev.crm": None, "dev": None, "ann": None, "corp": None}
        plan = await platform.plan_source(write(tmp_path / "next", edited(without)), SOURCE_NAME)
        kept = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).kept
    assert {each.held.ref.name: each.reason for each in kept}["dev"] == "holds data"
    assert [(each.held.ref, each.reason) for each in plan.kept] == [(each.held.ref, each.reason) for each in kept]


async def test_a_protected_environment_keeps_its_contents(base: Path, tmp_path: Path) -> None:
    protected = {"spare": environment("spare", ", deletionProtection: true"), "spare.crm": app("spare", "keep: [1.0.0]")}
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(tmp_path / "source", edited(protected)))
        plan = await platform.plan_source(write(tmp_path / "next", edited({**protected, "spare.crm": None})), SOURCE_NAME)
        kept = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).kept
    assert [(each.held.ref.name, each.reason) for each in kept] == [
        ("spare.crm", "is in environment spare, which deletionProtection protects")
    ]
    assert plan.kept == kept


@pytest.mark.slow
@pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)
async def test_a_plan_that_is_made_again_has_the_same_digest(base: Path, tmp_path: Path, edits: dict[str, str | None]) -> None:
    source = write(tmp_path / "source", edited(edits))
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        first = await platform.plan_source(source, SOURCE_NAME)
        again = await platform.plan_source(source, SOURCE_NAME)
    async with platform_on(copy_of(base, tmp_path / "other")) as platform:
        elsewhere = await platform.plan_source(source, SOURCE_NAME)
    assert first.digest == again.digest == elsewhere.digest


async def test_a_plan_prints_what_applying_releases(base: Path, tmp_path: Path) -> None:
    held = {**BASE, "umbra": object_("Tenant", "umbra", "{}").replace("{name: umbra", KEPT, 1)}
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await apply(platform, write(tmp_path / "source", held))
        plan = await platform.plan_source(write(tmp_path / "next", BASE), SOURCE_NAME)
        assert [str(step) for step in plan.steps] == ['~ Tenant/umbra (source: "default" -> (none))']
        released = (await platform.attach(tmp_path / "next", SOURCE_NAME).sync()).released
        assert released == (Ref("Tenant", "", "umbra"),)


KEPT = "{name: umbra, annotations: {tenantry.dev/prune: disabled}"
