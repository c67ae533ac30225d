"""Undeclared contents of an engine. Read only if `engine.unmanaged` is `Remove`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenantry.model.changes import Change, DeleteAppVersion, DeleteIdentity, DeleteIdentityProvider, UninstallApp
from tenantry.model.facts import EngineApp, EngineEndpoint, EngineIdentity, EngineIdentityProvider
from tenantry.model.fields import ENGINE_ADMIN


@dataclass(frozen=True)
class Contents:
    """All that the engine holds, and what is declared to be in it.

    apps: ids; usernames: case-folded; providers: names and ids, for a declared name may have changed.
    """

    engine: EngineEndpoint
    held_apps: tuple[EngineApp, ...] = ()
    held_users: tuple[EngineIdentity, ...] = ()
    held_providers: tuple[EngineIdentityProvider, ...] = ()
    apps: frozenset[str] = field(default_factory=frozenset)
    usernames: frozenset[str] = field(default_factory=frozenset)
    providers: frozenset[str] = field(default_factory=frozenset)

    def foreign_apps(self) -> tuple[EngineApp, ...]:
        """Undeclared apps with a stored version. An app of which only the data is left stays as it is."""
        return tuple(app for app in self.held_apps if app.id not in self.apps and (app.versions or app.installed))

    def foreign_users(self) -> tuple[str, ...]:
        """The names of undeclared users; `admin` is the engine's own and never among them."""
        names = (user.username for user in self.held_users)
        return tuple(name for name in names if name.casefold() not in self.usernames | {ENGINE_ADMIN})

    def foreign_providers(self) -> tuple[EngineIdentityProvider, ...]:
        """Undeclared identity providers."""
        return tuple(one for one in self.held_providers if not {one.id, one.settings.name} & self.providers)


def removals(contents: Contents) -> tuple[Change, ...]:
    """Return the changes that remove undeclared contents from the engine. The data of an app stays, as in the deletion of a
    declared one."""
    engine = contents.engine
    changes: list[Change] = []
    for app in contents.foreign_apps():
        changes += [UninstallApp(engine, app.id)] if app.installed else []
        changes += [DeleteAppVersion(engine, app.id, version) for version in app.versions]
    changes += [DeleteIdentity(engine, name) for name in contents.foreign_users()]
    changes += [DeleteIdentityProvider(engine, one.id, one.settings.name) for one in contents.foreign_providers()]
    return tuple(changes)


def undeclared(contents: Contents) -> tuple[str, ...]:
    """The same as phrases, for what is reported and left alone."""
    apps = (f"app {app.id} is not declared" for app in contents.foreign_apps())
    users = (f"identity {name} is not declared" for name in contents.foreign_users())
    providers = (f"identity provider {one.settings.name} is not declared" for one in contents.foreign_providers())
    return (*apps, *users, *providers)
