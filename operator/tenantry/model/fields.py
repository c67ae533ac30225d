"""Field types that several kinds share, with the bounds and CEL rules that their schemas carry."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from pydantic.config import JsonDict

from tenantry.model.resource import Value
from tenantry.model.wording import worded

RESERVED_SLUGS = (
    "www", "api", "admin", "auth", "app", "apps", "engine", "engines", "docs", "static", "internal", "system", "tenantry",
)  # fmt: skip
LONGEST_SLUG = 30
LABEL_PATTERN = worded(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "must be lower-case letters, digits and '-', with a letter or digit at both ends"
)
SLUG_PATTERN = LABEL_PATTERN
APP_PATTERN = worded(
    r"^[a-z][a-z0-9-]{0,39}$", "must be 1 to 40 lower-case letters, digits and '-', beginning with a letter, such as music-store"
)
_VERSION = "must be 1 to 64 letters, digits and '.', '_', '+' or '-', beginning with a letter or digit, such as 1.4.0"
VERSION_PATTERN = worded(r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$", _VERSION)
UUID_PATTERN = worded(
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "must be a UUID in lower case, such as 6f1f7a0e-8f3c-4a52-9d7a-0c1b2d3e4f50",
)
USERNAME_PATTERN = worded(
    r"^[A-Za-z0-9._@-]{1,64}$", "must be 1 to 64 letters, digits and '.', '_', '@' or '-', such as ann@example.com"
)

_ROLE = worded(
    r"^[A-Za-z][A-Za-z0-9_-]{0,62}$", "must be 1 to 63 letters, digits, '_' and '-', beginning with a letter, such as clerk"
)

ENGINE_ADMIN = "admin"
"""The user that every engine has, and that no Identity may declare, in upper or lower case."""

IMMUTABLE: JsonDict = {"rule": "self == oldSelf", "message": "is immutable"}
_SLUG_RULES: list[JsonDict] = [
    {"rule": "!self.contains('--')", "message": "must not contain '--'"},
    {"rule": f"!(self in {list(RESERVED_SLUGS)})", "message": "is reserved"},
]

_NAME_IS_A_SLUG = (
    f"self.metadata.name.size() <= {LONGEST_SLUG} && !self.metadata.name.contains('--')"
    f" && !(self.metadata.name in {list(RESERVED_SLUGS)})"
)
_NAME_IS_NO_SLUG = "is required: metadata.name is longer than 30 characters, contains '--' or is reserved, so it is not a slug"


class ObjectRule(NamedTuple):
    """A CEL rule over a whole object, and what its error says.

    field: where the error is reported, such as `.spec.slug`. said: a CEL expression that makes the message from the object.
    """

    rule: str
    message: str
    field: str = ""
    said: str = ""

    def schema(self) -> dict[str, str]:
        """One item of `x-kubernetes-validations`."""
        parts = {"rule": self.rule, "message": self.message, "messageExpression": self.said, "fieldPath": self.field}
        return {name: text for name, text in parts.items() if text}


EFFECTIVE_SLUG = (
    ObjectRule(
        # Objects that were reconciled before this rule existed must stay writable, or nobody could delete them.
        "has(self.spec.slug) || (has(self.status) && has(self.status.observedGeneration)"
        f" && self.status.observedGeneration >= 0) || ({_NAME_IS_A_SLUG})",
        _NAME_IS_NO_SLUG,
        ".spec.slug",
    ),
    ObjectRule(f"!has(oldSelf.spec.slug) || has(self.spec.slug) || ({_NAME_IS_A_SLUG})", _NAME_IS_NO_SLUG, ".spec.slug"),
)
"""The rules of a slug for kinds whose slug is metadata.name where `spec.slug` is absent."""

DisplayName = Annotated[str, Field(min_length=1, max_length=128, description="The name for people.")]
Slug = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_SLUG,
        pattern=SLUG_PATTERN,
        description="The name in URLs; default: metadata.name.",
        json_schema_extra={"x-kubernetes-validations": _SLUG_RULES},
    ),
]
ObjectName = Annotated[str, Field(min_length=1, max_length=40, pattern=LABEL_PATTERN)]
EnvironmentName = Annotated[
    ObjectName, Field(description="The metadata.name of the Environment, in the same namespace. Immutable.")
]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=LABEL_PATTERN)]
AppId = Annotated[str, Field(min_length=1, max_length=40, pattern=APP_PATTERN)]
AppVersion = Annotated[str, Field(min_length=1, max_length=64, pattern=VERSION_PATTERN)]
AllowedDrops = Annotated[
    str,
    Field(
        min_length=1,
        max_length=77,
        pattern=worded(
            f"{VERSION_PATTERN.rstrip('$')}(@[0-9a-f]{{12}})?$",
            "must be a version such as 2.0.0, or a version and the digest of its refusal, such as 2.0.0@0123456789ab",
        ),
        description="The only version whose install may drop data; with @ and the digest of a refusal, only that list.",
    ),
]
Username = Annotated[str, Field(min_length=1, max_length=64, pattern=USERNAME_PATTERN)]
DeclaredId = Annotated[
    str,
    Field(
        min_length=36,
        max_length=36,
        pattern=UUID_PATTERN,
        description="The id in REST, kept across a restore; default: the object's uid.",
        json_schema_extra={"x-kubernetes-validations": [IMMUTABLE]},
    ),
]
_NO_CREDENTIALS: JsonDict = {
    "rule": "!self.matches('^https?://[^/?#]*@')",
    "message": "must not hold a user or password: credentials belong in a Secret",
}
_NOT_OF_THE_CLUSTER: JsonDict = {
    "rule": "!self.startsWith('system:')",
    "message": "is a group of Kubernetes itself: name a group of people",
}
Group = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        description="The name of a group, as the sign-in of the cluster or the issuer gives it; not `system:...`.",
        json_schema_extra={"x-kubernetes-validations": [_NOT_OF_THE_CLUSTER]},
    ),
]
Url = Annotated[
    str,
    Field(
        min_length=8,
        max_length=2048,
        pattern=worded(r"^https?://[^\s]+$", "must be a URL such as https://login.example.com"),
        json_schema_extra={"x-kubernetes-validations": [_NO_CREDENTIALS]},
    ),
]
Role = Literal["SUPERUSER", "ADMIN", "VIEWER"]
Suspend = Annotated[
    bool, Field(description="If true, Tenantry does not act on the object until this is false again. Default: false.")
]
DeletionProtection = Annotated[bool, Field(description="If true, every deletion of the object is refused. Default: false.")]


def slug_problem(slug: str) -> str:
    """Return why this is not a slug, or `""`."""
    if not (1 <= len(slug) <= LONGEST_SLUG and re.fullmatch(SLUG_PATTERN.strip("^$"), slug) and "--" not in slug):
        return f"must have 1 to {LONGEST_SLUG} characters of a-z, 0-9 and single '-' between them"
    return f"{slug!r} is reserved" if slug in RESERVED_SLUGS else ""


def is_engine_admin(username: str) -> bool:
    """True for the engine's own `admin`. Usernames are the same in upper and lower case."""
    return username.casefold() == ENGINE_ADMIN


class RoleGrant(Value):
    """A role of an app, as its package declares it."""

    app: AppId = Field(description="The app that declares the role.")
    role: Annotated[str, Field(min_length=1, max_length=63, pattern=_ROLE)] = Field(
        description="The name of the role in the package of the app."
    )
