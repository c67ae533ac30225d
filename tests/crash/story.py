"""The story of the crash campaign: three chapters of one platform's declarations."""

from __future__ import annotations

from pathlib import Path

from tenantry.model.resource import SYSTEM_NAMESPACE

CHAPTERS = ("create", "edit", "delete")

_HEAD = """
apiVersion: tenantry.dev/v1alpha1
kind: {kind}
metadata: {{name: {name}{namespace}}}
"""
_APP = """
apiVersion: tenantry.dev/app/v1
id: shop
name: Shop
author: Example Ltd
version: {version}
tables:
  - name: items
    primaryKey: [id]
    columns:
      - {{name: id, type: integer, generated: true}}
      - {{name: name, type: string, length: 100, nullable: false}}
{columns}
roles:
  reader: {{items: [read]}}
"""
_COLUMNS = {
    "1.0.0": "      - {name: fax, type: string, length: 20}",
    "1.1.0": "      - {name: fax, type: string, length: 20}\n      - {name: price, type: integer, nullable: false, default: 0}",
    "2.0.0": "      - {name: price, type: integer, nullable: false, default: 0}",
}


def write(folder: Path, chapter: str) -> Path:
    """Writes the declarations of a chapter. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for version, columns in _COLUMNS.items():
        package = folder / f"shop-{version}"
        (package / "seed").mkdir(parents=True, exist_ok=True)
        (package / "app.yaml").write_text(_APP.format(version=version, columns=columns))
        (package / "seed" / "items.ndjson").write_text('{"id": 1, "name": "A", "fax": "1"}\n' if version < "2" else "")
    (folder / "platform.yaml").write_text("---".join(_documents(chapter)))
    return folder


def _documents(chapter: str) -> list[str]:
    edited = chapter != "create"
    documents = [object_("Region", "eu", "{}"), object_("Tenant", "acme", "{displayName: Acme}")]
    if chapter != "delete":
        documents += [
            object_("Tenant", "umbra", "{slug: umbra-2}" if edited else "{displayName: Umbra}"),
            *environment("umbra", "solo", "solo"),
            *_identity("uma", "umbra", "another secret", "{environment: solo, username: uma, passwordSecretRef: {name: uma}}"),
        ]
        documents += environment("acme", "dev", "develop" if edited else "dev")
        documents += _contents("dev", "1.1.0" if edited else "1.0.0", "a changed secret" if edited else "a first secret")
        documents += [*_user("boss", "acme", edited), *_user("una", "umbra", edited)]
    documents += environment("acme", "live", "live")
    documents += [package(version) for version in _COLUMNS]
    # Version 2.0.0 drops a column that has data: refused.
    documents.append(app("live", "2.0.0" if edited else "1.0.0"))
    return documents


def environment(tenant: str, name: str, slug: str) -> list[str]:
    """The document of an environment, in a list."""
    return [object_("Environment", name, f"{{region: eu, slug: {slug}, deletionPolicy: Delete}}", tenant)]


def _contents(environment: str, version: str, password: str) -> list[str]:
    who = f"{{environment: {environment}, username: ann, passwordSecretRef: {{name: ann}}, roles: [{{app: shop, role: reader}}]}}"
    corp = f"{{environment: {environment}, issuerUrl: 'https://issuer.example', clientId: {version}}}"
    return [
        app(environment, version),
        *_identity("ann", "acme", password, who),
        object_("IdentityProvider", "corp", corp, "acme"),
    ]


def _identity(name: str, tenant: str, password: str, spec: str) -> list[str]:
    return [secret(name, f"tenant-{tenant}", "identity", password), object_("Identity", name, spec, tenant)]


def _user(name: str, tenant: str, edited: bool) -> list[str]:
    """An ADMIN of the tenant with a password; edited: with another password."""
    who = f"{{displayName: {name}, username: {name}, role: ADMIN, tenant: {tenant}, passwordSecretRef: {{name: user-{name}}}}}"
    password = "a changed user secret" if edited else "a first user secret"
    return [secret(f"user-{name}", SYSTEM_NAMESPACE, "user", password), object_("User", name, who, namespace=SYSTEM_NAMESPACE)]


def secret(name: str, namespace: str, credential: str, password: str) -> str:
    """The document of a password. credential: what it is for, as its label says."""
    labels = f"{{tenantry.dev/credential: {credential}}}"
    return (
        f"\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}\n"
        f"stringData: {{password: {password!r}}}\n"
    )


def package(version: str) -> str:
    """The document of the shop's package, of acme."""
    spec = f"{{app: shop, version: {version}, source: {{path: shop-{version}}}}}"
    return object_("Package", f"shop-{version.replace('.', '-')}", spec, "acme")


def app(environment: str, version: str) -> str:
    """The document of the shop in an environment of acme."""
    return object_("App", f"{environment}.shop", f"{{environment: {environment}, app: shop, version: {version}}}", "acme")


def object_(kind: str, name: str, spec: str, tenant: str = "", *, namespace: str = "") -> str:
    """Any document. namespace: the tenant's where a tenant is given."""
    namespace = f"tenant-{tenant}" if tenant else namespace
    place = f", namespace: {namespace}" if namespace else ""
    return _HEAD.format(kind=kind, name=name, namespace=place) + f"spec: {spec}\n"
