"""Applications of an environment: App and Package resources."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from tenantry.api.engine.app_edits import Spec, dropping, installing, keeping, uninstalling
from tenantry.api.engine.engine_request import EngineRequest, Written, nothing
from tenantry.api.engine.shared_packages import SharedPackages
from tenantry.api.reading.waiting import until
from tenantry.api.writing.preconditions import Marks, check_match
from tenantry.api.writing.writes import WriteContext, edit, new_document, signed
from tenantry.kinds.app.decide import wanted_versions
from tenantry.kinds.app.spec import App
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region.spec import Region
from tenantry.kinds.signatures import refusal
from tenantry.model.declared import mark_of
from tenantry.model.facts import Download, EngineApp, MigrationStep, PackageFacts, list_of, losses_of
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
    ref_of,
)
from tenantry.model.verdicts import AlreadyExists, NotFound
from tenantry.packages.check import SYMBOLS, PackageLimits, open_package, sha256_of
from tenantry.rest.bodies import invalid


@dataclass(frozen=True)
class Apps:
    """The application half of EngineAdmin over the store."""

    request: EngineRequest

    async def apps(self) -> tuple[EngineApp, ...]:
        """Return the apps that the engine last reported, and the shared ones of the platform."""
        return self._shared.beside(self._held())

    def _held(self) -> tuple[EngineApp, ...]:
        request = self.request
        apps = (cast(App, one) for one in request.context.cache.resources(App.KIND, request.namespace, request.by))
        return tuple(_facts(app) for app in apps if app.status.available_versions or app.status.persisted)

    async def apps_with_rows(self) -> frozenset[str]:
        """Return the engine's answer; while it does not run, the apps that had tables when it last ran."""
        engine = self.request.engine()
        if engine is not None:
            return await engine.apps_with_rows()
        return frozenset(app.id for app in self._held() if app.persisted)

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        """Return the engine's answer; nothing while it does not run."""
        if (shared := await self._offered(app, version)) is not None:
            return await self.preview(await self._shared.fetch(shared))
        self._version(app, version)
        engine = self.request.engine_awake()
        return await engine.steps(app, version) if engine is not None else ()

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        """Return the engine's answer; nothing while it does not run."""
        engine = self.request.engine_awake()
        return await engine.preview(package) if engine is not None else ()

    async def upload(self, package: Path) -> PackageFacts:
        return await self._take(package, install=False, allow_drops=False)

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        return await self._take(package, install=True, allow_drops=allow_drops)

    async def _take(self, package: Path, *, install: bool, allow_drops: bool) -> PackageFacts:
        facts = await self.request.context.facade.inspect(package, self.request.tenant.metadata.name)
        self._check_same_bytes(facts)
        self._check_signed(facts)
        app, leave = self._find(facts.app), facts.version if allow_drops else ""
        if install and (app is None or app.status.installed_version != facts.version):
            leave = _leave(facts.version, await self.preview(package), allow_drops)
        change = partial(installing, version=facts.version, leave=leave)
        if not install:
            change = partial(keeping, version=facts.version)
        action = "INSTALL_APP" if install else "UPLOAD_APP"

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            await self._put_package(writes, package, facts)
            written = await self._put_app(writes, facts, change, action)
            return written._replace(undo=partial(self._remove_package, facts.app, facts.version))

        await self.request.perform(write, action, facts.sha256, str(allow_drops))
        return facts

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        if (shared := await self._offered(app, version)) is not None:
            await self._install_shared(shared, allow_drops)
            return
        held = self._version(app, version)
        if held.status.installed_version != version:
            self._check_signed(await self._stored_facts(app, version))
        leave = version if allow_drops else ""
        if held.status.installed_version != version and version in held.status.available_versions:
            leave = _leave(version, await self.steps(app, version), allow_drops)
        change = partial(installing, version=version, leave=leave)
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
        change = partial(installing, version=facts.version, leave=leave)

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            return await self._put_app(writes, facts, change, "INSTALL_APP")

        await self.request.perform(write, "INSTALL_APP", facts.app, facts.version, str(allow_drops))

    async def uninstall(self, app: str) -> None:
        held = self._app(app)
        if held.spec.version is None:
            raise invalid("id", f"{app} is not installed")
        await self._edit(held, uninstalling, "UNINSTALL_APP", held.spec.version)

    async def delete_version(self, app: str, version: str) -> None:
        held = self._version(app, version)
        if version in (held.spec.version, held.status.installed_version):
            raise invalid("version", f"{app} {version} is installed")
        await self._edit(held, partial(dropping, version=version), "DELETE_APP_VERSION", version)
        await self._remove_package(app, version)

    async def drop_data(self, app: str) -> None:
        held = self._app(app)
        if held.spec.version is not None or held.status.installed_version:
            raise invalid("id", f"{app} is installed: uninstall it first")
        self.request.context.writes.check_free(self._document(held))
        if not held.status.persisted:
            await self.request.answer_plan(nothing)
            return
        asked = format_time(self.request.context.facade.now())

        def dropped(resource: Resource[Any, Any]) -> bool:
            return cast(App, resource).status.last_handled_drop_data_at == asked

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            before, after = await self._annotate(writes, held.ref, {DROP_DATA_REQUESTED: asked})
            return Written(App.model_validate(after), before, after, "DROP_APP_DATA", asked, has=dropped)

        await self.request.perform(write, "DROP_APP_DATA", app)

    async def download(self, app: str, version: str) -> Download:
        path, sha256 = await self._bytes(app, version)
        size = (await asyncio.to_thread(path.stat)).st_size
        return Download(path, f"{app}-{version}.tapp", size, sha256)

    async def symbols(self, app: str, version: str) -> Download:
        path, sha256 = await self._bytes(app, version)
        folder = self.request.context.facade.uploads.folder
        return await asyncio.to_thread(_symbols, path, folder / f"{sha256}.sym", f"{app}-{version}.sym")

    async def _bytes(self, app: str, version: str) -> tuple[Path, str]:
        self._version(app, version)
        package = self._package(app, version)
        if package is None or not package.spec.sha256:
            raise NotFound(f"the package of {app} {version} is not stored")
        tenant = "" if package.metadata.namespace == SYSTEM_NAMESPACE else self.request.tenant.metadata.name
        return await self.request.context.facade.packages.fetch(tenant, package.spec.sha256), package.spec.sha256

    @property
    def _shared(self) -> SharedPackages:
        return SharedPackages(self.request)

    def _find(self, app: str) -> App | None:
        name = f"{self.request.environment.metadata.name}.{app}"
        return cast("App | None", self.request.context.cache.resource(Ref(App.KIND, self.request.namespace, name)))

    def _app(self, app: str) -> App:
        found = self._find(app)
        if found is None or found.deleting:
            raise NotFound(f"no application with id {app}")
        return found

    def _version(self, app: str, version: str) -> App:
        found = self._app(app)
        if not self._holds(found, version):
            raise NotFound(f"no version {version} of {app}")
        return found

    def _holds(self, app: App, version: str) -> bool:
        return version in (*wanted_versions(app), *app.status.available_versions)

    def _document(self, app: App) -> Document:
        return cast(Document, self.request.context.cache.document(app.ref))

    def _package(self, app: str, version: str) -> Package | None:
        """Return the tenant's own Package of a version, else the shared one."""
        by = f"package={app}@{version}"
        for namespace in (self.request.namespace, SYSTEM_NAMESPACE):
            found = [cast(Package, one) for one in self.request.context.cache.resources(Package.KIND, namespace, by)]
            found.sort(key=lambda one: (not one.status.claimed, one.metadata.uid))
            if found:
                return found[0]
        return None

    def _check_same_bytes(self, facts: PackageFacts) -> None:
        """A version never changes within a tenant."""
        known = self._package(facts.app, facts.version)
        if known is not None and known.spec.sha256 not in (None, facts.sha256):
            raise invalid("file", f"{facts.app} {facts.version} is stored with other bytes; a version never changes")

    async def _stored_facts(self, app: str, version: str) -> PackageFacts | None:
        """Return the facts of the stored package of a version, None if its bytes are missing."""
        package = self._package(app, version)
        if package is None or not package.spec.sha256:
            return None
        tenant = "" if package.metadata.namespace == SYSTEM_NAMESPACE else self.request.tenant.metadata.name
        return await self.request.context.facade.packages.inspect(tenant, package.spec.sha256)

    def _check_signed(self, facts: PackageFacts | None) -> None:
        """Check the signature against the keys of the region and of the environment. Raises Invalid."""
        if facts is None:
            return
        package, environment = self._package(facts.app, facts.version), self.request.environment
        region = self.request.context.cache.resource(Ref(Region.KIND, "", environment.spec.region))
        lists = (region.spec.package_keys if isinstance(region, Region) else None, environment.spec.package_keys)
        signature = (package.spec.signature if package else None) or ""
        for keys in filter(None, lists):
            if why := refusal(signature, facts.blake2b, keys):
                told = f"{facts.app} {facts.version} is not signed as this environment asks: {why}"
                raise invalid("file", f"{told}; declare its Package with spec.signature")

    async def _put_package(self, writes: WriteContext, package: Path, facts: PackageFacts) -> None:
        """Store it and wait until it is looked at: an App that waits for its Package gives its turn to the next edit."""
        request = self.request
        known = self._package(facts.app, facts.version)
        if known is not None and known.status.claimed:
            return
        await writes.packages.put(request.tenant.metadata.name, package, facts)
        ref = known.ref if known is not None else await self._new_package(writes, facts)
        await writes.turns.settled(ref)

    async def _new_package(self, writes: WriteContext, facts: PackageFacts) -> Ref:
        request, mark = self.request, hashlib.sha256(f"{facts.app}@{facts.version}".encode()).hexdigest()[:12]
        spec = {"app": facts.app, "version": facts.version, "sha256": facts.sha256}
        document = new_document(Package, request.namespace, spec, request.caller, None)
        document["metadata"] |= {"name": f"{facts.app[:20]}-{mark}", "labels": {MANAGED_BY_LABEL: MANAGER}}
        document["metadata"]["annotations"] |= mark_of(Package.KIND, {})
        try:
            await request.store(writes).create(document)
        except AlreadyExists:
            self._check_same_bytes(facts)  # another request was first
        return ref_of(document)

    async def _remove_package(self, app: str, version: str) -> None:
        """Remove a Package that was made over REST, with the last App of the tenant that holds it."""
        request = self.request
        package = self._package(app, version)
        if package is None or package.metadata.labels.get(MANAGED_BY_LABEL) != MANAGER:
            return
        holders = request.context.cache.resources(App.KIND, request.namespace, f"package={app}@{version}")
        if any(not holder.deleting for holder in holders):
            return
        await request.store(request.context.writes).delete(Held(package.ref, package.metadata.uid, ""))
        cache, seconds = request.context.cache, request.context.facade.engine_wait.total_seconds()

        def gone() -> bool | None:
            return True if cache.entry(package.ref) is None else None

        await until(cache, gone, lambda seen: seen.ref == package.ref, seconds)

    async def _put_app(self, writes: WriteContext, facts: PackageFacts, change: Callable[[Spec], Spec], action: str) -> Written:
        """Creates the App, or edits it."""
        request = self.request
        name = f"{request.environment.metadata.name}.{facts.app}"
        ref = Ref(App.KIND, request.namespace, name)
        store = request.store(writes)
        spec = {"environment": request.environment.metadata.name, "app": facts.app}
        document = new_document(App, request.namespace, change(spec), request.caller, None)
        document["metadata"]["name"] = name
        if writes.cache.entry(ref) is None:
            try:
                after = await store.create(document)
                made = App.model_validate(after)
                return Written(made, None, after, action, "1", facts.version, has=_has(action, facts.version))
            except AlreadyExists:
                pass  # another request was first
        before, after = await edit(writes.turns, store, request.http, ref, request.caller, change, check=writes.check_free)
        return _app_written(before, after, action, facts.version)

    async def _edit(self, app: App, change: Callable[[Spec], Spec], action: str, version: str, *about: str) -> None:
        self.request.context.writes.check_free(self._document(app))
        request = self.request

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            before, after = await edit(writes.turns, request.store(writes), request.http, app.ref, request.caller, change)
            return _app_written(before, after, action, version)

        await request.perform(write, action, app.spec.app, version, *about)

    async def _annotate(self, writes: WriteContext, ref: Ref, annotations: dict[str, str]) -> tuple[Document, Document]:
        def asked(current: Document) -> Document:
            check_match(self.request.http, current)
            return signed(current, self.request.caller, annotations)

        return await writes.turns.revise(self.request.store(writes), ref, asked)


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
    """Return a check that the engine has the result, even if a later write of the same App replaced the Operation."""

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


def _leave(version: str, steps: tuple[MigrationStep, ...], allowed: bool) -> str:
    """Return the approval for allowDropsFor: the losses of these steps, and no later ones. Raises Invalid."""
    told = list_of(steps)
    if any(step.impossible for step in steps):
        raise invalid("version", f"installing {version} is impossible with the existing rows: {told}")
    losing = any(step.loses_data for step in steps)
    if losing and not allowed:
        raise invalid("allow_drops", f"installing {version} loses data: {told}. Allow it with allow_drops=true")
    return f"{version}@{losses_of(steps)}" if losing else version if allowed else ""


def _symbols(package: Path, target: Path, filename: str) -> Download:
    """The symbol file, unpacked on its first use. Blocks. Raises NotFound."""
    if not target.exists():
        with open_package(package, PackageLimits(stored=True)) as opened:
            if not opened.has_symbols:
                raise NotFound("this version has no symbol file")
            descriptor, scratch = tempfile.mkstemp(".part", "sym-", target.parent)
            with opened.archive.open(SYMBOLS) as source, os.fdopen(descriptor, "wb") as out:
                shutil.copyfileobj(source, out)
        Path(scratch).replace(target)
    return Download(target, filename, target.stat().st_size, sha256_of(target))
