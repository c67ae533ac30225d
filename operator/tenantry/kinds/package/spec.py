"""Package: one version of an app, as a file with a known sha256."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tenantry.model.fields import AppId, AppVersion, Url
from tenantry.model.resource import Resource, Status, Value
from tenantry.model.wording import worded

OciReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=512,
        pattern=worded(
            r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})$",
            "must be REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, such as registry.example.com/apps/crm:1.4.0",
        ),
    ),
]


class PackageSource(Value):
    """The source of the bytes. Absent: they are pushed."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "[has(self.path), has(self.url), has(self.oci)].filter(x, x).size() == 1",
                    "message": "exactly one of path, url and oci must be set",
                }
            ]
        }
    }

    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="A package file or source folder, relative to the YAML file; read by the client or source that holds it.",
    )
    url: Url | None = Field(default=None, description="An https URL that the platform fetches the package file from.")
    oci: OciReference | None = Field(
        default=None, description="registry/repository:tag or registry/repository@sha256:..., pulled without credentials."
    )

    @property
    def location(self) -> str:
        """Return the location from which the platform fetches the bytes, a URL or `oci://` and a reference; `""` if they are
        pushed."""
        return self.url or (f"oci://{self.oci}" if self.oci else "")


class PackageSpec(Value):
    """The declaration of a Package. All of it except the signature is immutable once set."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {"rule": "self.app == oldSelf.app", "message": "is immutable", "fieldPath": ".app"},
                {"rule": "self.version == oldSelf.version", "message": "is immutable", "fieldPath": ".version"},
                {
                    "rule": "!has(oldSelf.sha256) || (has(self.sha256) && self.sha256 == oldSelf.sha256)",
                    "message": "is immutable once set: give the changed app another version, and declare a Package for it",
                    "fieldPath": ".sha256",
                },
                {
                    "rule": "has(self.shared) == has(oldSelf.shared) && (!has(self.shared) || self.shared == oldSelf.shared)",
                    "message": "is immutable",
                    "fieldPath": ".shared",
                },
                {
                    "rule": "!has(self.source) || !(has(self.source.url) || has(self.source.oci)) || has(self.sha256)",
                    "message": "is required with source.url and source.oci: what is fetched must be known before",
                    "fieldPath": ".sha256",
                },
            ]
        }
    }

    app: AppId = Field(description="The app, as `id` of its app.yaml has it. Immutable.")
    version: AppVersion = Field(description="The version, as `version` of its app.yaml has it. Immutable.")
    sha256: str | None = Field(
        default=None,
        min_length=64,
        max_length=64,
        pattern=worded(r"^[0-9a-f]{64}$", "must be a SHA-256: 64 digits and letters a to f, in lower case"),
        description="The SHA-256 of the package file, 64 hex digits. An upload fills it in if absent; immutable once set.",
    )
    signature: str | None = Field(
        default=None, min_length=1, max_length=2048, description="The .minisig file of its bytes, if they must be signed."
    )
    shared: bool = Field(default=False, description="For every tenant; only in tenantry-system.")
    source: PackageSource | None = None


class PackageStatus(Status):
    """The observed state of a Package."""

    name: str | None = Field(default=None, description="The display name of the app, from its app.yaml.")
    author: str | None = Field(default=None, description="The author of the app, from its app.yaml.")
    size: int | None = Field(default=None, description="The size of the package file in bytes.")
    tables: int | None = Field(default=None, description="The number of tables that the app declares.")
    symbols: bool | None = Field(default=None, description="If true, the package has a symbol file.")
    roles: tuple[str, ...] | None = Field(default=None, description="The roles that the app declares.")
    claimed: bool = Field(default=False, description="If true, this is the Package that counts for its app and version.")


class Package(Resource[PackageSpec, PackageStatus]):
    """One version of an app."""

    KIND: ClassVar[str] = "Package"
    PLURAL: ClassVar[str] = "packages"
    SHORT: ClassVar[str] = "pkg"
    TENANT_DECLARES: ClassVar[bool] = True
    VERSION_AT: ClassVar[tuple[str, ...]] = ("spec", "version")
    EXPORTED_TO: ClassVar[str] = "40-packages"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("App", "string", ".spec.app", 0),
        ("Version", "string", ".spec.version", 0),
        ("Size", "integer", ".status.size", 1),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.app", ".spec.version")

    spec: PackageSpec
    status: PackageStatus = Field(default_factory=PackageStatus)

    @property
    def claims(self) -> frozenset[str]:
        return frozenset({f"Package {self.metadata.namespace} {self.spec.app}@{self.spec.version}"})

    def index_keys(self) -> frozenset[str]:
        keys = {f"package={self.spec.app}@{self.spec.version}", f"app={self.spec.app}"}
        if self.spec.sha256:
            keys.add(f"sha256={self.spec.sha256}")
        return frozenset(keys)
