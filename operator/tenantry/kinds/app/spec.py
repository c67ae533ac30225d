"""App: which version of an app is installed in an environment."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.fields import AllowedDrops, AppId, AppVersion, EnvironmentName, ObjectRule, Suspend
from tenantry.model.resource import Resource, Status, Value


class AppSpec(Value):
    """The declaration of an App."""

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

    environment: EnvironmentName
    app: AppId = Field(description="The app, as its packages name it. Immutable.")
    version: AppVersion | None = Field(default=None, description="The installed version; the app is uninstalled if absent.")
    keep: list[AppVersion] = Field(
        default_factory=list, max_length=50, description="Versions that the engine stores besides the installed one."
    )
    allow_drops_for: AllowedDrops | None = None
    suspend: Suspend = False


class AppStatus(Status):
    """The observed state of an App."""

    name: str | None = Field(
        default=None, description="The app's display name: of the installed version, otherwise of the newest one."
    )
    author: str | None = Field(
        default=None, description="The app's author: of the installed version, otherwise of the newest one."
    )
    available_versions: tuple[str, ...] = Field(
        default=(), description="The versions that the engine stores, in the order of their upload."
    )
    installed_version: str | None = Field(default=None, description="The installed version; absent if none is installed.")
    persisted: bool = Field(default=False, description="If true, the engine holds tables of the app; an uninstall leaves them.")
    last_handled_drop_data_at: str | None = Field(
        default=None, description="The value of the annotation tenantry.dev/drop-data-requested-at that was last handled."
    )


class App(Resource[AppSpec, AppStatus]):
    """An app in an environment. Its name is `<environment>.<app>`."""

    KIND: ClassVar[str] = "App"
    PLURAL: ClassVar[str] = "apps"
    SHORT: ClassVar[str] = "tapp"
    TENANT_DECLARES: ClassVar[bool] = True
    VERSION_AT: ClassVar[tuple[str, ...]] = ("status", "installedVersion")
    IN_ENVIRONMENT: ClassVar[bool] = True
    EXPORTED_TO: ClassVar[str] = "50-apps"
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Version", "string", ".status.installedVersion", 0),
        ("Environment", "string", ".spec.environment", 1),
    )
    SELECTABLE: ClassVar[tuple[str, ...]] = (".spec.environment", ".spec.app")
    CEL: ClassVar[tuple[ObjectRule, ...]] = (
        ObjectRule(
            "self.metadata.name == self.spec.environment + '.' + self.spec.app",
            "metadata.name must be <environment>.<app>",
            said="'metadata.name must be ' + self.spec.environment + '.' + self.spec.app + ' (<environment>.<app>)'",
        ),
    )

    spec: AppSpec
    status: AppStatus = Field(default_factory=AppStatus)

    def index_keys(self) -> frozenset[str]:
        held = {self.spec.version, *self.spec.keep} - {None}
        return frozenset({f"environment={self.spec.environment}"} | {f"package={self.spec.app}@{version}" for version in held})
