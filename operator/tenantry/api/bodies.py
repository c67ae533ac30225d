"""The bodies of the cloud interface, field by field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tenantry.rest.bodies import Body, EditBody

Name = Annotated[str, Field(min_length=1, max_length=128)]
NonEmpty = Annotated[str, Field(min_length=1)]


class Answer(BaseModel):
    """An answer whose field names are camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class AuthMeResponse(Answer):
    """Who is signed in."""

    sub: str
    role: str
    tenant_id: str


class RegionBody(Answer):
    """Region."""

    id: str
    name: str
    provider: str
    subdomain: str


class TenantBody(Answer):
    """Tenant."""

    id: str
    name: str
    slug: str
    status: str
    created_at: str


class EngineBody(Answer):
    """The engine of an environment."""

    id: str
    environment_id: str
    name: str
    status: str
    url: str
    external_id: str
    created_at: str


class EnvironmentBody(Answer):
    """Environment."""

    id: str
    tenant_id: str
    name: str
    slug: str
    region: str
    region_info: RegionBody | None
    status: str
    external_id: str
    engine: EngineBody
    tenant: TenantBody | None
    created_at: str


class OperationBody(Answer):
    """Operation."""

    id: str
    tenant_id: str
    action_type: str
    action_details: str
    status: str
    result: str
    logs: str
    created_by: str
    created_at: str
    scheduled_on: str
    started_on: str
    ends_on: str


class UserIdentityBody(BaseModel):
    """The credential of a user."""

    id: str
    identityId: str  # noqa: N815 - the interface's own names
    userId: str  # noqa: N815
    created_at: str


class UserBody(BaseModel):
    """User."""

    id: str
    name: str
    tenantId: str  # noqa: N815
    type: str
    identities: list[UserIdentityBody]
    created_at: str
    updated_at: str


class EnvironmentCreatedResponse(BaseModel):
    """An environment whose provisioning is queued."""

    environment: EnvironmentBody
    message: str
    operation_id: str


class OperationQueuedResponse(BaseModel):
    """Queued work."""

    message: str
    operation_id: str


class SlugCheckResponse(BaseModel):
    """Whether a slug can be had, and the URL that it would give."""

    valid: bool
    error: str
    url: str


class PlanVerdict(BaseModel):
    """How an object would end that would not be Ready."""

    object: str
    reason: str
    message: str


class PlanResponse(BaseModel):
    """What a write would do."""

    changes: list[str]
    verdicts: list[PlanVerdict]
    digest: str


class PlanKept(BaseModel):
    """What left its source, and would stay."""

    object: str
    reason: str
    approvable: bool


class PlanStep(BaseModel):
    """One change, taken apart."""

    sign: str
    object: str
    text: str


class SourcePlanResponse(PlanResponse):
    """What applying a source would do. problems: why it is refused."""

    problems: list[str]
    kept: list[PlanKept]
    steps: list[PlanStep]


class PackageBody(BaseModel):
    """A stored package. size in bytes."""

    app: str
    version: str
    sha256: str
    size: int


class SuccessBody(BaseModel):
    """The answer to a deletion that is done."""

    message: str
    success: bool


class CreateEnvironmentRequest(Body):
    """A new environment."""

    name: Name
    slug: NonEmpty
    region: NonEmpty


class CreateTenantRequest(Body):
    """A new tenant."""

    name: Name
    slug: NonEmpty


class EditRequest(EditBody):
    """What changes of a tenant or an environment."""

    name: Name | None = None
    slug: NonEmpty | None = None


class CreateUserRequest(Body):
    """A new user of the platform."""

    username: NonEmpty
    password: NonEmpty
    tenant_id: str = Field("", alias="tenantId")
    type: NonEmpty


class EditUserRequest(EditBody):
    """What changes of a user."""

    password: NonEmpty | None = None
    tenant_id: str | None = Field(None, alias="tenantId")
    type: NonEmpty | None = None
