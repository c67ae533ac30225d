"""The bodies of the cloud interface, field by field."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel
from typing_extensions import TypeAliasType

from tenantry.kinds.operation.spec import Action, Result, State
from tenantry.model.fields import Role
from tenantry.rest.bodies import AnswerBody, Body, EditBody

UserRole = TypeAliasType("UserRole", Role)
EnvironmentProvider = TypeAliasType("EnvironmentProvider", Literal["LOCAL", "KUBERNETES"])
ActionType = TypeAliasType("ActionType", Action)
OperationStatus = TypeAliasType("OperationStatus", State)
OperationResult = TypeAliasType("OperationResult", Result)
TenantStatus = TypeAliasType("TenantStatus", Literal["READY", "DELETING"])
EnvironmentStatus = TypeAliasType("EnvironmentStatus", Literal["PENDING", "READY", "DELETING"])
EngineStatus = TypeAliasType("EngineStatus", Literal["PENDING", "RUNNING", "SLEEPING", "FAILED", "DELETING"])

Name = Annotated[str, Field(min_length=1, max_length=128, description="The name that people read.", examples=["Production"])]
Slug = Annotated[
    str,
    Field(
        min_length=1,
        description="The name in addresses: 1 to 30 of a-z, 0-9 and single hyphens, not first or last.",
        examples=["production"],
    ),
]
RegionId = Annotated[str, Field(min_length=1, description="The id of a region, from GET /regions.", examples=["eu"])]
RoleName = Annotated[
    str,
    Field(
        min_length=1,
        description="The role. ADMIN and VIEWER need a tenantId.",
        json_schema_extra={"enum": list(get_args(Role))},
        examples=["ADMIN"],
    ),
]
Username = Annotated[
    str,
    Field(
        min_length=1, description="1 to 64 of letters, digits and . _ @ -; unique on the platform.", examples=["mia@acme.example"]
    ),
]
UserPassword = Annotated[str, Field(min_length=1, description="8 to 1,024 characters.", examples=["correct horse battery"])]
TENANT_ID = "The id of the tenant. A SUPERUSER has none."
A_TENANT = "c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"


class Answer(AnswerBody):
    """An answer whose field names are camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class AuthMeResponse(Answer):
    """The signed-in user."""

    sub: str = Field(
        description="The id of the user. Of an external issuer: `<issuer>#<subject>`.",
        examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"],
    )
    role: UserRole = Field(
        description="The role: SUPERUSER (all), ADMIN (its tenant), VIEWER (reads its tenant).", examples=["ADMIN"]
    )
    tenant_id: str = Field(
        description="The id of the tenant of the user, empty for a SUPERUSER.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"]
    )


class RegionBody(Answer):
    """Region."""

    id: str = Field(description="The name of the Region.", examples=["eu"])
    name: str = Field(description="The name that people read.", examples=["Europe"])
    provider: EnvironmentProvider = Field(description="Where its engines run.", examples=["KUBERNETES"])
    subdomain: str = Field(
        description="The domain below which its engines get their hosts, empty without one.", examples=["eu.example.com"]
    )


class TenantBody(Answer):
    """Tenant."""

    id: str = Field(description="The id, which never changes.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="The name that people read.", examples=["Acme Records"])
    slug: str = Field(description="The name in addresses, unique on the platform.", examples=["acme"])
    status: TenantStatus = Field(description="The state of the tenant.", examples=["READY"])
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])


class EngineBody(Answer):
    """The engine of an environment."""

    id: str = Field(description="The id of the engine, empty until it exists.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    environment_id: str = Field(description="The id of its environment.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="`engine-` and the slug of the environment.", examples=["engine-production"])
    status: EngineStatus = Field(description="The state of the engine.", examples=["RUNNING"])
    url: str = Field(
        description="The address of the engine. Before it exists, the address that it will have.",
        examples=["https://acme-production.eu.example.com"],
    )
    external_id: str = Field(
        description="The place of its workload at the provider, empty until it exists.", examples=["cluster/env-1f0c2a4b/engine"]
    )
    created_at: str = Field(description="The time of creation, empty until it exists.", examples=["2026-11-24T09:30:00Z"])


class EnvironmentBody(Answer):
    """Environment."""

    id: str = Field(description="The id, which never changes.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    tenant_id: str = Field(description="The id of the tenant.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="The name that people read.", examples=["Production"])
    slug: str = Field(description="The name in addresses, unique within the tenant.", examples=["production"])
    region: str = Field(description="The id of the region.", examples=["eu"])
    region_info: RegionBody | None = Field(description="The region, null if it does not exist.")
    status: EnvironmentStatus = Field(description="The state of the environment.", examples=["READY"])
    external_id: str = Field(description="The place of the environment at the provider.", examples=["cluster/env-1f0c2a4b"])
    engine: EngineBody = Field(description="The engine of the environment.")
    tenant: TenantBody | None = Field(description="The tenant, null if it does not exist.")
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])


class OperationBody(Answer):
    """Operation."""

    id: str = Field(description="The id, which never changes.", examples=["op-5f2c9d1e7a"])
    tenant_id: str = Field(
        description="The id of the tenant, empty for work of the platform. It stays when the tenant is gone.",
        examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"],
    )
    action_type: ActionType = Field(description="The kind of work.", examples=["CREATE_ENVIRONMENT"])
    action_details: str = Field(description="The work in one sentence.", examples=["Create environment production"])
    status: OperationStatus = Field(description="How far the work is.", examples=["COMPLETED"])
    result: OperationResult = Field(description="PENDING until the work is COMPLETED.", examples=["SUCCESS"])
    logs: str = Field(
        description="The newest 4 KiB of the log, a line per step: time, level, text.",
        examples=["2026-11-24T09:30:00Z INFO deploy engine"],
    )
    created_by: str = Field(
        description="The user who asked: a username, `git:<author>`, `kubectl` or `system`.", examples=["acme-admin"]
    )
    created_at: str = Field(description="The time of the request.", examples=["2026-11-24T09:30:00Z"])
    scheduled_on: str = Field(description="The earliest start.", examples=["2026-11-24T09:30:00Z"])
    started_on: str = Field(description="The start, empty before it.", examples=["2026-11-24T09:30:00Z"])
    ends_on: str = Field(description="The end, empty before it.", examples=["2026-11-24T09:30:00Z"])


class UserIdentityBody(AnswerBody):
    """The credential of a user."""

    id: str = Field(description="The id of this entry.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    identityId: str = Field(description="The id of the credential.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])  # noqa: N815
    userId: str = Field(description="The id of the user.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])  # noqa: N815
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])


class UserBody(AnswerBody):
    """User."""

    id: str = Field(description="The id, which never changes.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"])
    name: str = Field(description="The username.", examples=["mia@acme.example"])
    tenantId: str = Field(  # noqa: N815 - the interface\'s own name
        description="The id of the tenant, empty for a SUPERUSER.", examples=["c8a1b6de-7a0f-4b3e-9f39-2c1d5f0a8e11"]
    )
    type: UserRole = Field(
        description="The role: SUPERUSER (all), ADMIN (its tenant), VIEWER (reads its tenant).", examples=["ADMIN"]
    )
    identities: list[UserIdentityBody] = Field(description="The credentials of the user: always one.")
    created_at: str = Field(description="The time of creation.", examples=["2026-11-24T09:30:00Z"])
    updated_at: str = Field(description="The time of the last change.", examples=["2026-11-24T09:30:00Z"])


class EnvironmentCreatedResponse(AnswerBody):
    """An environment whose provisioning is queued."""

    environment: EnvironmentBody = Field(description="The new environment, PENDING.")
    message: str = Field(description="A sentence for people.", examples=["Environment production is queued"])
    operation_id: str = Field(description="The Operation that provisions it.", examples=["op-5f2c9d1e7a"])


class OperationQueuedResponse(AnswerBody):
    """Queued work."""

    message: str = Field(description="A sentence for people.", examples=["Deletion is queued"])
    operation_id: str = Field(description="The Operation that does the work.", examples=["op-5f2c9d1e7a"])


class SlugCheckResponse(AnswerBody):
    """Availability of a slug, and the URL that it would give."""

    valid: bool = Field(description="True if the slug is well formed and free.", examples=[True])
    error: str = Field(description="The reason why it is not, otherwise empty.", examples=[""])
    url: str = Field(
        description="The address that an engine would get, empty if none can be built.",
        examples=["https://acme-production.eu.example.com"],
    )


class PlanVerdict(AnswerBody):
    """The verdict of an object that would not be Ready."""

    object: str = Field(description="Kind, namespace and name.", examples=["App/tenant-acme/production.crm"])
    reason: str = Field(description="The machine-readable reason.", examples=["DropsData"])
    message: str = Field(description="The reason as a sentence.", examples=["drops column contacts.fax (591 rows)"])


class PlanResponse(AnswerBody):
    """The effects of a write."""

    changes: list[str] = Field(
        description="The changes, a line for each.", examples=[["create Environment/tenant-acme/production"]]
    )
    verdicts: list[PlanVerdict] = Field(description="Each object that would not be Ready.")
    digest: str = Field(description="The value for the header If-Plan.", examples=["3f9a0c"])


class PlanKept(AnswerBody):
    """An object that left its source and would stay."""

    object: str = Field(description="Kind, namespace and name.", examples=["Environment/tenant-acme/old"])
    reason: str = Field(description="The reason why it stays.", examples=["it holds data"])
    approvable: bool = Field(description="True if an approval removes it.", examples=[True])


class PlanStep(AnswerBody):
    """One change, taken apart."""

    sign: str = Field(description="`+` creates, `~` changes, `-` removes.", examples=["+"])
    object: str = Field(description="Kind, namespace and name.", examples=["App/tenant-acme/production.crm"])
    text: str = Field(description="The change in words.", examples=["install 1.1.0"])


class SourcePlanResponse(PlanResponse):
    """The effects of applying a source. problems: the reasons for its refusal."""

    problems: list[str] = Field(description="The reasons for which the source would be refused.", examples=[[]])
    kept: list[PlanKept] = Field(description="Objects that left the source and would stay.")
    steps: list[PlanStep] = Field(description="The changes, taken apart.")
    passed_over: int = Field(description="The number of documents of other API groups in the source.", examples=[0])


class PackageBody(AnswerBody):
    """A stored package. size in bytes."""

    app: str = Field(description="The id of the app.", examples=["crm"])
    version: str = Field(description="The version of the package.", examples=["1.1.0"])
    sha256: str = Field(
        description="The SHA-256 of the file, in hexadecimal digits.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )
    size: int = Field(description="Bytes of the file.", examples=[18211])


class SuccessBody(AnswerBody):
    """The answer to a deletion that is done."""

    message: str = Field(description="A sentence for people.", examples=["User mia is deleted"])
    success: bool = Field(description="Always true: failures have an error.", examples=[True])


class CreateEnvironmentRequest(Body):
    """A new environment."""

    name: Name
    slug: Slug
    region: RegionId


class CreateTenantRequest(Body):
    """A new tenant."""

    name: Name
    slug: Slug


class EditRequest(EditBody):
    """Changes of a name and a slug; a field that is left out stays."""

    name: Name | None = None
    slug: Slug | None = None


class EditEnvironmentRequest(EditRequest):
    """Changes of an environment."""


class EditTenantRequest(EditRequest):
    """Changes of a tenant."""


class CreateUserRequest(Body):
    """A new user of the platform."""

    username: Username
    password: UserPassword
    tenant_id: str = Field("", alias="tenantId", description=TENANT_ID, examples=[A_TENANT])
    type: RoleName


class EditUserRequest(EditBody):
    """Changes of a user."""

    password: UserPassword | None = None
    tenant_id: str | None = Field(None, alias="tenantId", description=TENANT_ID, examples=[A_TENANT])
    type: RoleName | None = None
