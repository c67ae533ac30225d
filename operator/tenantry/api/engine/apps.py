"""Applications of an environment: App and Package resources."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from tenantry.api.engine.shared_packages import SharedPackages
from tenantry.api.engine.site import Site, Written, nothing
from tenantry.api.preconditions import Marks, check_match
from tenantry.api.waiting import until
from tenantry.api.writes import Desk, edit, new_document, signed
from tenantry.engine.packages.check import SYMBOLS, open_package, sha256_of
from tenantry.kinds.app.decide import wanted_versions
from tenantry.kinds.app.spec import App
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region.spec import Region
from tenantry.kinds.signatures import refusal
from tenantry.model.facts import EngineApp, MigrationStep, PackageFacts, list_of, losses_of
from tenantry.model.filled_in import mark_of
from tenantry.model.resource import (
    DROP_DATA_REQUESTED,
    MANAGED_BY_LABEL,
    MANAGER,
    SYSTEM_NAMESPACE,
    Document,
    Held,
    Ref,
    Resource,
    format_time,
)
from tenantry.model.verdicts import AlreadyExists, NotFound
from tenantry.ports import Download
from tenantry.rest.bodies import invalid

Spec = dict[str, Any]


class Apps:
    """The application half of EngineAdmin over the store."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._shared = SharedPackages(site)

    def list(self) -> tuple[EngineApp, ...]:
        """What the engine was seen to hold, and what the platform shares with every tenant."""
        return self._shared.beside(self._held())

    def _held(self) -> tuple[EngineApp, ...]:
        site = self._site
        apps = (cast(App, one) for one in site.front.cache.resources(App.KIND, site.namespace, site.by))
        return tuple(_facts(app) for app in apps if app.status.available_versions or app.status.persisted)

    async def with_rows(self) -> frozenset[str]:
        """What the engine says; while it does not run, the apps that had tables when it last did."""
        engine = self._site.engine()
        if engine is not None:
            return await engine.apps_with_rows()
        return frozenset(app.id for app in self._held() if app.persisted)

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        """What the engine says; nothing while it does not run."""
        if (shared := await self._offered(app, version)) is not None:
            return await self.preview(await self._shared.fetch(shared))
        self._version(app, version)
        engine = self._site.engine()
        return await engine.steps(app, version) if engine is not None else ()

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        """What the engine says; nothing while it does not run."""
        engine = self._site.engine()
        return await engine.preview(package) if engine is not None else ()

    async def take(self, package: Path, *, install: bool, allow_drops: bool) -> PackageFacts:
        """Upload, or publish."""
        facts = await asyncio.to_thread(self._site.front.facade.inspect, package)
        self._check_same_bytes(facts)
        self._check_signed(facts)
        app, leave = self._find(facts.app), facts.version if allow_drops else ""
        if install and (app is None or app.status.installed_version != facts.version):
            leave = _leave(facts.version, await self.preview(package), allow_drops)
        change = partial(_installing, version=facts.version, leave=leave)
        if not install:
            change = partial(_keeping, version=facts.version)
        action = "INSTALL_APP" if install else "UPLOAD_APP"

        async def write(desk: Desk, marks: Marks | None) -> Written:
            await self._put_package(desk, package, facts)
            written = await self._put_app(desk, facts, change, action)
            return written._replace(undo=partial(self._remove_package, facts.app, facts.version))

        await self._site.perform(write, action, facts.sha256, str(allow_drops))
        return facts

    async def install(self, app: str, version: str, allow_drops: bool) -> None:
        if (shared := await self._offered(app, version)) is not None:
            await self._install_shared(shared, allow_drops)
            return
        held = self._version(app, version)
        if held.status.installed_version != version:
            self._check_signed(await self._facts(app, version))
        leave = version if allow_drops else ""
        if held.status.installed_version != version and version in held.status.available_versions:
            leave = _leave(version, await self.steps(app, version), allow_drops)
        change = partial(_installing, version=version, leave=leave)
        await self._edit(held, change, "INSTALL_APP", version, str(allow_drops))

    async def _offered(self, app: str, version: str) -> PackageFacts | None:
        """The shared package of a version that the environment does not hold yet."""
        held = self._find(app)
        if held is not None and (held.deleting or self._holds(held, version)):
            return None
        return await self._shared.facts(app, version)

    async def _install_shared(self, facts: PackageFacts, allow_drops: bool) -> None:
        self._check_signed(facts)
        leave = _leave(facts.version, await self.preview(await self._shared.fetch(facts)), allow_drops)
        change = partial(_installing, version=facts.version, leave=leave)

        async def write(desk: Desk, marks: Marks | None) -> Written:
            return await self._put_app(desk, facts, change, "INSTALL_APP")

        await self._site.perform(write, "INSTALL_APP", facts.app, facts.version, str(allow_drops))

    async def uninstall(self, app: str) -> None:
        held = self._require(app)
        if held.spec.version is None:
            raise invalid("id", f"{app} is not installed")
        await self._edit(held, _uninstalling, "UNINSTALL_APP", held.spec.version)

    async def delete_version(self, app: str, version: str) -> None:
        held = self._version(app, version)
        if version in (held.spec.version, held.status.installed_version):
            raise invalid("version", f"{app} {version} is installed")
        await self._edit(held, partial(_dropping, version=version), "DELETE_APP_VERSION", version)
        await self._remove_package(app, version)

    async def drop_data(self, app: str) -> None:
        held = self._require(app)
        if held.spec.version is not None or held.status.installed_version:
            raise invalid("id", f"{app} is installed: uninstall it first")
        self._site.front.desk.check_free(self._document(held))
        if not held.status.persisted:
            await self._site.answer_plan(nothing)
            return
        asked = format_time(self._site.front.facade.now())

        def dropped(resource: Resource[Any, Any]) -> bool:
            return cast(App, resource).status.last_handled_drop_data_at == asked

        async def write(desk: Desk, marks: Marks | None) -> Written:
            before, after = await self._annotate(desk, held.ref, {DROP_DATA_REQUESTED: asked})
            return Written(App.model_validate(after), before, after, "DROP_APP_DATA", asked, has=dropped)

        await self._site.perform(write, "DROP_APP_DATA", app)

    async def download(self, app: str, version: str) -> Download:
        path, sha256 = await self._bytes(app, version)
        size = (await asyncio.to_thread(path.stat)).st_size
        return Download(path, f"{app}-{version}.tapp", size, sha256)

    async def symbols(self, app: str, version: str) -> Download:
        path, sha256 = await self._bytes(app, version)
        folder = self._site.front.facade.uploads.folder
        return await asyncio.to_thread(_symbols, path, folder / f"{sha256}.sym", f"{app}-{version}.sym")

    async def _bytes(self, app: str, version: str) -> tuple[Path, str]:
        self._version(app, version)
        package = self._package(app, version)
        if package is None or not package.spec.sha256:
            raise NotFound(f"the package of {app} {version} is not there")
        tenant = "" if package.metadata.namespace == SYSTEM_NAMESPACE else self._site.tenant.metadata.name
        return await self._site.front.facade.packages.fetch(tenant, package.spec.sha256), package.spec.sha256

    def _find(self, app: str) -> App | None:
        name = f"{self._site.environment.metadata.name}.{app}"
        return cast("App | None", self._site.front.cache.resource(Ref(App.KIND, self._site.namespace, name)))

    def _require(self, app: str) -> App:
        found = self._find(app)
        if found is None or found.deleting:
            raise NotFound(f"no application with id {app}")
        return found

    def _version(self, app: str, version: str) -> App:
        found = self._require(app)
        if not self._holds(found, version):
            raise NotFound(f"no version {version} of {app}")
        return found

    def _holds(self, app: App, version: str) -> bool:
        return version in (*wanted_versions(app), *app.status.available_versions)

    def _document(self, app: App) -> Document:
        return cast(Document, self._site.front.cache.document(app.ref))

    def _package(self, app: str, version: str) -> Package | None:
        """The tenant's own, else the shared one."""
        by = f"package={app}@{version}"
        for namespace in (self._site.namespace, SYSTEM_NAMESPACE):
            found = [cast(Package, one) for one in self._site.front.cache.resources(Package.KIND, namespace, by)]
            found.sort(key=lambda one: (not one.status.claimed, one.metadata.uid))
            if found:
                return found[0]
        return None

    def _check_same_bytes(self, facts: PackageFacts) -> None:
        """A version never changes within a tenant."""
        known = self._package(facts.app, facts.version)
        if known is not None and known.spec.sha256 not in (None, facts.sha256):
            raise invalid("file", f"{facts.app} {facts.version} is stored with other bytes; a version never changes")

    async def _facts(self, app: str, version: str) -> PackageFacts | None:
        """What the stored package of a version says, None where its bytes are not there."""
        package = self._package(app, version)
        if package is None or not package.spec.sha256:
            return None
        tenant = "" if package.metadata.namespace == SYSTEM_NAMESPACE else self._site.tenant.metadata.name
        return await self._site.front.facade.packages.inspect(tenant, package.spec.sha256)

    def _check_signed(self, facts: PackageFacts | None) -> None:
        """By a key of each list that asks for one: the region's and the environment's."""
        if facts is None:
            return
        package, environment = self._package(facts.app, facts.version), self._site.environment
        region = self._site.front.cache.resource(Ref(Region.KIND, "", environment.spec.region))
        lists = (region.spec.package_keys if isinstance(region, Region) else None, environment.spec.package_keys)
        signature = (package.spec.signature if package else None) or ""
        for keys in filter(None, lists):
            if why := refusal(signature, facts.blake2b, keys):
                told = f"{facts.app} {facts.version} is not signed as this environment asks: {why}"
                raise invalid("file", f"{told}; declare its Package with spec.signature")

    async def _put_package(self, desk: Desk, package: Path, facts: PackageFacts) -> None:
        site = self._site
        known = self._package(facts.app, facts.version)
        if known is not None and known.status.claimed:
            return
        await desk.packages.put(site.tenant.metadata.name, package, facts)
        if known is not None:
            return
        mark = hashlib.sha256(f"{facts.app}@{facts.version}".encode()).hexdigest()[:12]
        spec = {"app": facts.app, "version": facts.version, "sha256": facts.sha256}
        document = new_document(Package, site.namespace, spec, site.caller, None)
        document["metadata"] |= {"name": f"{facts.app[:20]}-{mark}", "labels": {MANAGED_BY_LABEL: MANAGER}}
        document["metadata"]["annotations"] |= mark_of(Package.KIND, {})
        try:
            await site.store(desk).create(document)
        except AlreadyExists:
            self._check_same_bytes(facts)  # another request was first

    async def _remove_package(self, app: str, version: str) -> None:
        """The REST-made Package goes with the last App of the tenant that held it; only then may other bytes come."""
        site = self._site
        package = self._package(app, version)
        if package is None or package.metadata.labels.get(MANAGED_BY_LABEL) != MANAGER:
            return
        holders = site.front.cache.resources(App.KIND, site.namespace, f"package={app}@{version}")
        if any(not holder.deleting for holder in holders):
            return
        await site.store(site.front.desk).delete(Held(package.ref, package.metadata.uid, ""))
        cache, seconds = site.front.cache, site.front.facade.engine_wait.total_seconds()

        def gone() -> bool | None:
            return True if cache.entry(package.ref) is None else None

        await until(cache, gone, lambda seen: seen.ref == package.ref, seconds)

    async def _put_app(self, desk: Desk, facts: PackageFacts, change: Callable[[Spec], Spec], action: str) -> Written:
        """Creates the App, or edits it."""
        site = self._site
        name = f"{site.environment.metadata.name}.{facts.app}"
        ref = Ref(App.KIND, site.namespace, name)
        store = site.store(desk)
        spec = {"environment": site.environment.metadata.name, "app": facts.app}
        document = new_document(App, site.namespace, change(spec), site.caller, None)
        document["metadata"]["name"] = name
        if desk.cache.entry(ref) is None:
            try:
                after = await store.create(document)
                made = App.model_validate(after)
                return Written(made, None, after, action, "1", facts.version, has=_has(action, facts.version))
            except AlreadyExists:
                pass  # another request was first
        desk.check_free(await store.get(ref))
        before, after = await edit(desk.turns, store, site.request, ref, site.caller, change)
        return _app_written(before, after, action, facts.version)

    async def _edit(self, app: App, change: Callable[[Spec], Spec], action: str, version: str, *about: str) -> None:
        self._site.front.desk.check_free(self._document(app))
        site = self._site

        async def write(desk: Desk, marks: Marks | None) -> Written:
            before, after = await edit(desk.turns, site.store(desk), site.request, app.ref, site.caller, change)
            return _app_written(before, after, action, version)

        await site.perform(write, action, app.spec.app, version, *about)

    async def _annotate(self, desk: Desk, ref: Ref, annotations: dict[str, str]) -> tuple[Document, Document]:
        def asked(current: Document) -> Document:
            check_match(self._site.request, current)
            return signed(current, self._site.caller, annotations)

        return await desk.turns.revise(self._site.store(desk), ref, asked)


def _facts(app: App) -> EngineApp:
    status = app.status
    return EngineApp(
        id=app.spec.app,
        name=status.name or "",
        author=status.author or "",
        version=status.installed_version or "",
        versions=status.available_versions,
        persisted=status.persisted,
    )


def _app_written(before: Document, after: Document, action: str, version: str) -> Written:
    cause = str(after["metadata"]["generation"])
    return Written(App.model_validate(after), before, after, action, cause, version, has=_has(action, version))


def _has(action: str, version: str) -> Callable[[Resource[Any, Any]], bool]:
    """Does the engine have it, although a later write of the same App took the Operation's place?"""

    def has(resource: Resource[Any, Any]) -> bool:
        status = cast(App, resource).status
        match action:
            case "UPLOAD_APP":
                return version in status.available_versions
            case "INSTALL_APP":
                return status.installed_version == version
            case "UNINSTALL_APP":
                return status.installed_version != version
            case _:
                return version not in status.available_versions

    return has


def _keep(spec: Spec, *versions: str | None, but: str = "") -> Spec:
    kept = dict.fromkeys(version for version in (*spec.get("keep", ()), *versions) if version and version != but)
    return {**spec, "keep": list(kept)}


def _keeping(spec: Spec, version: str) -> Spec:
    return spec if spec.get("version") == version else _keep(spec, version)


def _installing(spec: Spec, version: str, leave: str) -> Spec:
    """leave: for allowDropsFor, `""` for none."""
    if spec.get("version") == version and not leave:
        return spec
    changed = {**_keep(spec, spec.get("version"), but=version), "version": version}
    changed.pop("allowDropsFor", None)
    return changed | ({"allowDropsFor": leave} if leave else {})


def _uninstalling(spec: Spec) -> Spec:
    changed = _keep(spec, spec.get("version"))
    changed.pop("version", None)
    return changed


def _dropping(spec: Spec, version: str) -> Spec:
    return _keep(spec, but=version)


def _leave(version: str, steps: tuple[MigrationStep, ...], allowed: bool) -> str:
    """What may be lost, for allowDropsFor: what these steps lose, and nothing that appears later. Raises Invalid."""
    told = list_of(steps)
    if any(step.impossible for step in steps):
        raise invalid("version", f"installing {version} is impossible for the rows that are there: {told}")
    losing = any(step.loses_data for step in steps)
    if losing and not allowed:
        raise invalid("allow_drops", f"installing {version} loses data: {told}. Allow it with allow_drops=true")
    return f"{version}@{losses_of(steps)}" if losing else version if allowed else ""


def _symbols(package: Path, target: Path, filename: str) -> Download:
    """The symbol file, unpacked on its first use. Blocks. Raises NotFound."""
    if not target.exists():
        with open_package(package) as opened:
            if not opened.has_symbols:
                raise NotFound("this version has no symbol file")
            descriptor, scratch = tempfile.mkstemp(".part", "sym-", target.parent)
            with opened.archive.open(SYMBOLS) as source, os.fdopen(descriptor, "wb") as out:
                shutil.copyfileobj(source, out)
        Path(scratch).replace(target)
    return Download(target, filename, target.stat().st_size, sha256_of(target))
