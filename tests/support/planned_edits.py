"""Edits of a platform in files: each is planned, applied and compared."""

from __future__ import annotations

from tests.crash.story import object_
from tests.support.planned_platform import BASE, acme, app, environment, identity, provider, secret, tenant, user

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
    "an environment's labels": {"spare": environment("spare").replace("name: spare", "name: spare, labels: {size: l, at: sea}")},
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
