"""Field types that several kinds share, with the bounds and CEL rules that their schemas carry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.config import JsonDict

from tenantry.model.resource import Value

RESERVED_SLUGS = (
    "www", "api", "admin", "auth", "app", "apps", "engine", "engines", "docs", "static", "internal", "system", "tenantry",
)  # fmt: skip
SLUG_PATTERN = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
LABEL_PATTERN = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
APP_PATTERN = r"^[a-z][a-z0-9-]{0,39}$"
VERSION_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"
UUID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
USERNAME_PATTERN = r"^[A-Za-z0-9._@-]{1,64}$"

ENGINE_ADMIN = "admin"
"""The user that every engine has, and that no Identity may declare, in upper or lower case."""

IMMUTABLE: JsonDict = {"rule": "self == oldSelf", "message": "is immutable"}
_SLUG_RULES: list[JsonDict] = [
    {"rule": "!self.contains('--')", "message": "must not contain '--'"},
    {"rule": f"!(self in {list(RESERVED_SLUGS)})", "message": "is reserved"},
]

DisplayName = Annotated[str, Field(min_length=1, max_length=128, description="The name that people read.")]
Slug = Annotated[
    str,
    Field(
        min_length=1,
        max_length=30,
        pattern=SLUG_PATTERN,
        description="The name in URLs; metadata.name where absent.",
        json_schema_extra={"x-kubernetes-validations": _SLUG_RULES},
    ),
]
ObjectName = Annotated[str, Field(min_length=1, max_length=40, pattern=LABEL_PATTERN)]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=LABEL_PATTERN)]
AppId = Annotated[str, Field(min_length=1, max_length=40, pattern=APP_PATTERN)]
AppVersion = Annotated[str, Field(min_length=1, max_length=64, pattern=VERSION_PATTERN)]
AllowedDrops = Annotated[
    str,
    Field(
        min_length=1,
        max_length=77,
        pattern=f"{VERSION_PATTERN.rstrip('$')}(@[0-9a-f]{{12}})?$",
        description="The one version whose install may drop data; with @ and the digest of a refusal that list alone.",
    ),
]
Username = Annotated[str, Field(min_length=1, max_length=64, pattern=USERNAME_PATTERN)]
DeclaredId = Annotated[
    str,
    Field(
        min_length=36,
        max_length=36,
        pattern=UUID_PATTERN,
        description="The id in REST, kept across a restore; the object's uid where absent.",
        json_schema_extra={"x-kubernetes-validations": [IMMUTABLE]},
    ),
]
Group = Annotated[str, Field(min_length=1, max_length=253)]
Url = Annotated[str, Field(min_length=8, max_length=2048, pattern=r"^https?://[^\s]+$")]
Role = Literal["SUPERUSER", "ADMIN", "VIEWER"]


def is_engine_admin(username: str) -> bool:
    """True for the engine's own `admin`. Usernames are the same in upper and lower case."""
    return username.casefold() == ENGINE_ADMIN


class RoleGrant(Value):
    """A role of an app, as its package declares it."""

    app: AppId
    role: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]
