"""The story that the crash campaign tells: three chapters of one platform's declarations."""

from __future__ import annotations

from pathlib import Path

CHAPTERS = ("create", "edit", "delete")

_HEAD = """
apiVersion: tenantry.dev/v1alpha1
kind: {kind}
metadata: {{name: {name}{namespace}{labels}}}
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
        ]
        documents += environment("acme", "dev", "develop" if edited else "dev")
        documents += _contents("dev", "1.1.0" if edited else "1.0.0", "a changed secret" if edited else "a first secret")
    documents += environment("acme", "live", "live")
    documents += [package(version) for version in _COLUMNS]
    # Version 2.0.0 drops a column that has data: refused.
    documents.append(app("live", "2.0.0" if edited else "1.0.0"))
    return documents


def environment(tenant: str, name: str, slug: str) -> list[str]:
    """The document of an environment, in a list."""
    return [object_("Environment", name, f"{{region: eu, slug: {slug}, deletionPolicy: Delete}}", tenant)]


def _contents(environment: str, version: str, password: str) -> list[str]:
    secret = (
        "\napiVersion: v1\nkind: Secret\n"
        "metadata: {name: ann, namespace: tenant-acme, labels: {tenantry.dev/credential: identity}}\n"
        f"stringData: {{password: {password}}}\n"
    )
    who = f"{{environment: {environment}, username: ann, passwordSecretRef: {{name: ann}}, roles: [{{app: shop, role: reader}}]}}"
    corp = f"{{environment: {environment}, issuerUrl: 'https://issuer.example', clientId: {version}}}"
    return [
        app(environment, version),
        secret,
        object_("Identity", "ann", who, "acme"),
        object_("IdentityProvider", "corp", corp, "acme"),
    ]


def package(version: str) -> str:
    """The document of the shop's package, of acme."""
    spec = f"{{app: shop, version: {version}, source: {{path: shop-{version}}}}}"
    return object_("Package", f"shop-{version.replace('.', '-')}", spec, "acme")


def app(environment: str, version: str) -> str:
    """The document of the shop in an environment of acme."""
    return object_("App", f"{environment}.shop", f"{{environment: {environment}, app: shop, version: {version}}}", "acme")


def object_(kind: str, name: str, spec: str, tenant: str = "") -> str:
    """Any document."""
    namespace = f", namespace: tenant-{tenant}" if tenant else ""
    return _HEAD.format(kind=kind, name=name, namespace=namespace, labels="") + f"spec: {spec}\n"
