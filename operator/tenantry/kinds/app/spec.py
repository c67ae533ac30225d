"""App: which version of an app is installed in an environment."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.fields import AllowedDrops, AppId, AppVersion, ObjectName
from tenantry.model.resource import Resource, Status, Value


class AppSpec(Value):
    """What is declared of an App."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {
                    "rule": "self.environment == oldSelf.environment",
                    "message": "is immutable",
                    "fieldPath": ".environment",
                },
                {"rule": "self.app == oldSelf.app", "message": "is immutable", "fieldPath": ".app"},
            ]
        }
    }

    environment: ObjectName
    app: AppId
    version: AppVersion | None = Field(default=None, description="The installed version; uninstalled where absent.")
    keep: list[AppVersion] = Field(
        default_factory=list, max_length=50, description="Versions that the engine stores besides the installed one."
    )
    allow_drops_for: AllowedDrops | None = None
    suspend: bool = False


class AppStatus(Status):
    """What is seen of an App. availableVersions in upload order; persisted: the engine holds tables of it."""

    name: str | None = None
    author: str | None = None
    available_versions: tuple[str, ...] = ()
    installed_version: str | None = None
    persisted: bool = False
    last_handled_drop_data_at: str | None = None


class App(Resource[AppSpec, AppStatus]):
    """An app in an environment. Its name is `<environment>.<app>`."""

    KIND: ClassVar[str] = "App"
    PLURAL: ClassVar[str] = "apps"
    SHORT: ClassVar[str] = "tapp"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Version", "string", ".status.installedVersion", 0),
        ("Environment", "string", ".spec.environment", 1),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.environment", ".spec.app")
    CEL: ClassVar[tuple[tuple[str, str, str], ...]] = (
        (
            "self.metadata.name == self.spec.environment + '.' + self.spec.app",
            "metadata.name must be <environment>.<app>",
            "",
        ),
    )

    spec: AppSpec
    status: AppStatus = Field(default_factory=AppStatus)

    def index_keys(self) -> frozenset[str]:
        held = {self.spec.version, *self.spec.keep} - {None}
        return frozenset({f"environment={self.spec.environment}"} | {f"package={self.spec.app}@{version}" for version in held})
