"""Source: a Git repository that is applied."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from tenantry.model.fields import Suspend
from tenantry.model.resource import SYSTEM_NAMESPACE, Resource, SecretKeyRef, Status, Time, Value
from tenantry.model.wording import worded

_PLACEHOLDER = r"\{(namespace|kind|name)\}"
_STEP = rf"([^/.{{}}\\\x00-\x20\x7f]|{_PLACEHOLDER})([^/{{}}\\\x00-\x1f\x7f]|{_PLACEHOLDER})*"
_PATTERN = worded(
    rf"^({_STEP}/)*{_STEP}\.ya?ml$",
    "must be a relative path that ends in .yaml, such as tenants/{namespace}/{kind}-{name}.yaml;"
    " only {namespace}, {kind} and {name} may be in braces",
)
_ADDRESS_RULES: tuple[JsonDict, ...] = (
    {
        "rule": "!self.startsWith('http://') || self.matches('^http://(localhost|127[.]0[.]0[.]1|.::1.)(:[0-9]+)?/')",
        "message": "must be https, ssh or file: http is only taken of the machine itself",
    },
    {
        "rule": "!self.matches('^https?://[^/?#]*@') && !self.matches('^ssh://[^/?#@]*:[^/?#]*@')",
        "message": "must not hold credentials: name a Secret in credentials.secretRef",
    },
)
GitAddress = Annotated[
    str,
    Field(
        min_length=8,
        max_length=2048,
        pattern=worded(
            r"^(https|http|ssh|file)://[\x21-\x7e]+$",
            "must be a URL such as https://git.example.com/team/platform.git or ssh://git@example.com/platform.git",
        ),
        json_schema_extra={"x-kubernetes-validations": list(_ADDRESS_RULES)},
        description="https://HOST/REPOSITORY, ssh://USER@HOST/REPOSITORY, or, in tenantry-system, file:///REPOSITORY.",
    ),
]
REVISION_NAME = worded(
    r"^[A-Za-z0-9_]([A-Za-z0-9_./+-]*[A-Za-z0-9_+-])?$", "must be the name of a branch or tag, such as main or release/1.4"
)
RevisionName = Annotated[str, Field(min_length=1, max_length=200, pattern=REVISION_NAME)]
Interval = Annotated[
    str,
    Field(
        min_length=2,
        max_length=6,
        pattern=worded(r"^[1-9][0-9]{0,4}[smh]$", "must be a time in s, m or h, such as 30s, 5m or 1h"),
        description="The time between two calls to the remote: 30s, 5m, 1h.",
    ),
]
_IN_SET = r"([^\]\\/\x00-\x1f\x7f]|\\[^/\x00-\x1f\x7f])*\]"
_IGNORED = (  # what adapters.sources.ignoring can use: each [ is closed in its own name, and no name ends in a single backslash
    r"^(#[^\x00-\x1f\x7f]*|([^\[\\\x00-\x1f\x7f]|\\[^/\x00-\x1f\x7f]"
    rf"|\[[!^]([^\\/\x00-\x1f\x7f]|\\[^/\x00-\x1f\x7f]){_IN_SET}|\[([^!^\\/\x00-\x1f\x7f]|\\[^/\x00-\x1f\x7f]){_IN_SET})+)$"
)
IgnorePattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        pattern=worded(
            _IGNORED,
            "must be a pattern as in a .gitignore file, such as charts/ or *-values.yaml; each [ needs its ] before the next /,"
            " and a backslash a character after it",
        ),
    ),
]
WritePattern = Annotated[
    str,
    Field(
        min_length=5,
        max_length=256,
        pattern=_PATTERN,
        description="The file of a new object, below the folder of `path`.",
    ),
]
WRITING = "writing=true"
"""The index key of Sources that take writes."""
LISTENING = "listening=true"
"""The index key of Sources with a webhook that are not suspended."""
_OFF = "self.writeBack.mode == 'Off'"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class SourceCredentials(Value):
    """Credentials for the repository."""

    secret_ref: SecretKeyRef | None = Field(
        default=None, description="https: USER:PASSWORD, or a token. ssh: a private key without a passphrase."
    )
    known_hosts: str | None = Field(
        default=None, min_length=1, max_length=65536, description="The lines of known_hosts that name an ssh host's keys."
    )


class SourceWebhook(Value):
    """The secret of those who may announce a change of the repository."""

    secret_ref: SecretKeyRef


class SourceVerify(Value):
    """The trusted signers of commits."""

    keys: str = Field(
        min_length=1, max_length=65536, description="SSH allowed signers, or armored OpenPGP public keys; they are not secret."
    )


class SourcePrune(Value):
    """The limit of a sync's deletions without approval: percent of its objects, once it has more than `objects`."""

    objects: int = Field(
        default=10,
        ge=0,
        le=1_000_000,
        description="A Source with at most this many objects may lose all of them at once. Default: 10.",
    )
    percent: int = Field(
        default=50, ge=0, le=100, description="The share, in percent, that a larger Source may lose in one sync. Default: 50."
    )


class SourceSigningKey(Value):
    """The key that signs the commits of callers' writes."""

    secret_ref: SecretKeyRef = Field(description="An SSH private key without a passphrase.")


class SourceWriteBack(Value):
    """The result of REST writes of the Source's declarations: refusals, commits on its branch, or each a branch for review."""

    mode: Literal["Off", "Branch", "Review"] = Field(
        default="Off",
        description="`Off` (default): writes are refused. `Branch`: a commit on the branch. `Review`: on a branch of its own.",
    )
    path: WritePattern = "{namespace}/{kind}-{name}.yaml"
    signing_key: SourceSigningKey | None = None


class SourceSpec(Value):
    """The declaration of a Source."""

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {"rule": "!has(self.branch) || !has(self.tag)", "message": "only one of branch and tag may be set"},
                {
                    "rule": f"!has(self.tag) || {_OFF}",
                    "message": "a tag takes no commits: writeBack.mode must be Off, or branch be set instead",
                    "fieldPath": ".writeBack.mode",
                },
                {
                    "rule": f"!has(self.verify) || {_OFF} || has(self.writeBack.signingKey)",
                    "message": "is required where commits are verified: what is written back would be refused",
                    "fieldPath": ".writeBack.signingKey",
                },
            ]
        }
    }

    url: GitAddress
    branch: RevisionName | None = Field(
        default=None, description="A branch; default: the repository's own, if tag is not set either."
    )
    tag: RevisionName | None = Field(default=None, description="A tag, instead of a branch.")
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        pattern=worded(
            r"^[^/\\\x00-\x20\x7f][^\\\x00-\x1f\x7f]*$",
            "must be a path inside the repository, such as deploy/eu, without a leading '/' and without '\\'",
        ),
        description="A folder, or one YAML file, inside the repository; default: the whole repository.",
    )
    ignore: tuple[IgnorePattern, ...] = Field(
        default=(),
        max_length=100,
        description="Files that are left out, as .gitignore names them; after those of .tenantryignore at the root of the path.",
    )
    strict: bool = Field(
        default=False,
        description="Refuse documents of other API groups. By default they are passed over, and status.passedOver counts them.",
    )
    interval: Interval = "1m"
    credentials: SourceCredentials = Field(default_factory=SourceCredentials)
    webhook: SourceWebhook | None = None
    verify: SourceVerify | None = None
    prune: SourcePrune = Field(default_factory=SourcePrune)
    write_back: SourceWriteBack = Field(default_factory=SourceWriteBack)
    deletion_policy: Literal["Retain", "Prune"] = Field(
        default="Retain", description="The end of its objects when the Source is deleted."
    )
    wait: bool = Field(default=False, description="Ready only while all objects of the Source are.")
    suspend: Suspend = False

    @property
    def interval_s(self) -> float:
        return int(self.interval[:-1]) * _UNITS[self.interval[-1]]

    @property
    def revision(self) -> str:
        """The full name of the ref, `""` for the repository's own default."""
        if self.branch is not None:
            return f"refs/heads/{self.branch}"
        return f"refs/tags/{self.tag}" if self.tag is not None else ""


class KeptObject(Value):
    """An object that left the repository and is not pruned."""

    object: str = Field(description="The object, as KIND/NAMESPACE/NAME.")
    reason: str = Field(description="The reason why it is not pruned.")


class SourceStatus(Status):
    """The observed state of a Source."""

    revision: str | None = Field(default=None, description="The applied commit.")
    settled_revision: str | None = Field(default=None, description="The last commit after which nothing was left to approve.")
    last_sync: Time | None = Field(default=None, description="When the remote was last read and applied.")
    documents: int | None = Field(default=None, description="The number of documents in that commit.")
    passed_over: int | None = Field(default=None, description="The number of documents of other API groups in that commit.")
    objects: int | None = Field(default=None, description="The number of objects of the Source.")
    problems: tuple[str, ...] = Field(
        default=(), description="The reasons why newer commits, or some objects, are not applied: FILE:LINE: ..."
    )
    kept: tuple[KeptObject, ...] = Field(
        default=(), description="Objects that left the repository and stay until somebody approves their deletion."
    )
    released: tuple[str, ...] = Field(
        default=(), description="Objects that left the repository last, were not to be pruned, and have no source now."
    )
    approval: str | None = Field(default=None, description="The annotation value that approves the kept objects.")


class Source(Resource[SourceSpec, SourceStatus]):
    """A Git repository that is applied: in a tenant's namespace there only and with that tenant's rights, else everywhere."""

    KIND: ClassVar[str] = "Source"
    PLURAL: ClassVar[str] = "sources"
    SHORT: ClassVar[str] = "src"
    TENANT_DECLARES: ClassVar[bool] = True
    VERSION_AT: ClassVar[tuple[str, ...]] = ("status", "revision")
    WRITTEN_BACK: ClassVar[bool] = False
    EXPORTED_TO: ClassVar[str] = "80-sources"
    UNFOLLOWED: ClassVar[frozenset[str]] = Resource.UNFOLLOWED | {"lastSync"}
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Revision", "string", ".status.revision", 0),
        ("Objects", "integer", ".status.objects", 0),
        ("Synced", "date", ".status.lastSync", 0),
        ("URL", "string", ".spec.url", 1),
    )

    spec: SourceSpec
    status: SourceStatus = Field(default_factory=SourceStatus)

    @property
    def commits_to(self) -> str:
        """The place of the commits of write-back, for people. Tenants do not see the URLs of the platform's own Sources."""
        branch = "a branch for review" if self.spec.write_back.mode == "Review" else self.spec.branch or "the default branch"
        where = f"source {self.metadata.name}" if self.metadata.namespace == SYSTEM_NAMESPACE else self.spec.url
        return f"{branch} of {where}"

    def index_keys(self) -> frozenset[str]:
        listening = {LISTENING} if self.spec.webhook is not None and not self.suspended else set[str]()
        return frozenset(listening | ({WRITING} if self.spec.write_back.mode != "Off" else set()))
