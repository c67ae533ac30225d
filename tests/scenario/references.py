"""Every reference by name, slug or id, and what becomes of it when its target is deleted and made again by another customer.

docs/security-model.md publishes this table; test_references.py tries it on every host, and that no row is without a test.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import httpx

from tests.cluster.running import until
from tests.scenario.hosts import Host, Object, condition, object_
from tests.unit.engine.archives import manifest

SLUG, NAMESPACE = "iso", "tenant-iso"
PASSWORD = "a long password"
WAITS = {"Prefer": "wait=60"}
READY_S = 90.0
HERE = {"name": "Dev", "slug": "dev", "region": "here"}


@dataclass
class Story:
    """What was done in the first tenant of a name, and the second one. kept: what each reference remembers of the first."""

    host: Host
    tenants: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def begin(self, admin: str) -> None:
        """A tenant of the name, with an ADMIN and an environment."""
        made = self.host.rest("POST", "/tenants", json={"name": "Iso", "slug": SLUG}, headers={"Idempotency-Key": "make-iso"})
        assert made.status_code == 201, made.text
        self.tenants.append(made.json()["id"])
        user = {"username": admin, "password": PASSWORD, "type": "ADMIN", "tenantId": self.tenant}
        assert (answer := self.host.rest("POST", "/users", json=user)).status_code == 201, answer.text
        self.tokens.append(self.host.signed_in(admin, PASSWORD))
        asked = self.rest("POST", "/environments", json=HERE, headers=WAITS)
        assert asked.status_code == 202, asked.text
        self.environments.append(asked.json()["environment"]["id"])

    def end(self) -> None:
        """Deletes the tenant."""
        assert self.host.rest("DELETE", f"/tenants/{self.tenant}", headers=WAITS).status_code == 202
        gone = self.tenant
        until(lambda: gone not in {each["id"] for each in self.host.rest("GET", "/tenants").json()}, "deleted", READY_S)

    @property
    def tenant(self) -> str:
        return self.tenants[-1]

    def rest(self, method: str, path: str, **options: Any) -> httpx.Response:
        """As the present tenant's ADMIN."""
        return self.host.rest(method, path, self.tokens[-1], **options)

    def engine(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The declared engine interface of the present tenant's environment."""
        root = f"{self.host.url}/engines/{self.environments[-1]}/api/v1/admin"
        headers = {"Authorization": f"Bearer {self.tokens[-1]}"}
        return httpx.request(method, root + path, headers=headers, timeout=120, **options)

    def ends_as(self, kind: str, namespace: str, name: str, *ends: str) -> str:
        """Waits until an object is not Ready for one of these reasons; the message."""
        found: list[Object] = []

        def looked() -> bool:
            found[:] = [self.host.get(kind, namespace, name)]
            status, reason, _ = condition(found[0], "Ready")
            return status == "False" and reason in ends

        until(looked, f"{kind}/{name} {ends}", READY_S, lambda: str(found[0].get("status")))
        return condition(found[0], "Ready")[2]


@dataclass(frozen=True)
class Reference:
    """names: by what it names its target. across: with another customer's target of the name; within: with one of the same
    tenant. before, after: the try; proofs: tests elsewhere, as `file::name`."""

    names: str
    across: str
    within: str
    before: Callable[[Story], Any] | None = None
    after: Callable[[Story, Any], None] | None = None
    proofs: tuple[str, ...] = ()


def _signs_in(story: Story) -> None:
    form = {"username": "isolde", "password": PASSWORD}
    assert httpx.post(f"{story.host.url}/api/v1/auth/token", data=form).status_code == 401
    assert "isolde" not in {each["name"] for each in story.host.rest("GET", "/users").json()}


def _token(story: Story) -> None:
    assert story.host.rest("GET", "/auth/me", story.tokens[0]).status_code == 401


def _makes_identity(story: Story) -> None:
    made = story.engine("POST", "/identities", json={"username": "ann", "password": PASSWORD})
    assert made.status_code in (200, 201), made.text


def _no_identity(story: Story, _: Any) -> None:
    assert {each["username"] for each in story.engine("GET", "/identities").json()["data"]} == {"admin"}
    assert story.host.rest("GET", f"/environments/{story.environments[0]}").status_code == 404


def _pushes(story: Story) -> str:
    """Bytes that no Package declares; their sha256."""
    raw = BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(zipfile.ZipInfo("app.yaml"), manifest())
    sha256 = hashlib.sha256(raw.getvalue()).hexdigest()
    pushed = story.host.rest("PUT", f"/packages/{sha256}?tenantId={story.tenant}", content=raw.getvalue())
    assert pushed.status_code in (200, 201), pushed.text
    return sha256


def _no_bytes(story: Story, sha256: str) -> None:
    story.host.apply(object_("Package", NAMESPACE, "crm", app="crm", version="1.0.0", sha256=sha256))
    story.ends_as("packages", NAMESPACE, "crm", "PackageMissing")


def _keeps_secret(story: Story) -> None:
    labels = {"tenantry.dev/credential": "identity"}
    metadata = {"name": "wifi", "namespace": NAMESPACE, "labels": labels}
    story.host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": PASSWORD}})


def _no_secret(story: Story, _: Any) -> None:
    spec = {"environment": "dev", "username": "bob", "passwordSecretRef": {"name": "wifi"}}
    story.host.apply(object_("Identity", NAMESPACE, "bob", **spec))
    story.ends_as("identities", NAMESPACE, "bob", "SecretNotFound", "SecretMissing")


def _adopted(story: Story) -> str:
    """A Tenant with a namespace that a person made; its uid once it is there."""
    metadata = {"name": "ado-space", "labels": {"tenantry.dev/tenant": "ado"}}
    story.host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    tenant = object_("Tenant", "", "ado")
    story.host.apply({**tenant, "spec": {"namespace": "ado-space"}})
    return str(story.host.get("tenants", "", "ado")["metadata"]["uid"])


def _adopts(story: Story) -> str:
    uid = _adopted(story)
    until(lambda: condition(story.host.get("tenants", "", "ado"), "Ready")[0] == "True", "adopted", READY_S)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "left", "namespace": "ado-space"}}
    story.host.apply({**secret, "stringData": {"password": PASSWORD}})
    story.host("delete", "tenant/ado")
    until(lambda: "ado" not in {each["metadata"]["name"] for each in story.host.objects("tenants")}, "deleted", READY_S)
    return uid


def _does_not_inherit(story: Story, first: str) -> None:
    assert _adopted(story) != first
    assert "Secret/ado-space/left" in story.ends_as("tenants", "", "ado", "NamespaceNotEmpty")
    assert story.host.get("tenants", "", "ado")["status"].get("namespace") is None


def _may_use_region(story: Story) -> None:
    assert "closed" in {each["id"] for each in story.rest("GET", "/regions").json()}


def _may_not_use_region(story: Story, _: Any) -> None:
    assert "closed" not in {each["id"] for each in story.rest("GET", "/regions").json()}
    refused = story.rest("POST", "/environments", json={**HERE, "slug": "closed", "region": "closed"})
    assert (refused.status_code, refused.json()["error"]) == (400, "region: no such region")
    assert "closed" not in {each["slug"] for each in story.rest("GET", "/environments").json()}


def _own_operations(story: Story, _: Any) -> None:
    assert {each["tenantId"] for each in story.rest("GET", "/operations").json()} == {story.tenant}
    assert story.rest("GET", f"/operations?tenantId={story.tenants[0]}").json() == []
    first = story.host.rest("GET", f"/operations?tenantId={story.tenants[0]}").json()
    assert {"CREATE_TENANT", "DELETE_TENANT"} <= {each["actionType"] for each in first}


def _version(story: Story) -> str:
    made = story.engine("POST", "/identities", json={"username": "eve", "password": PASSWORD})
    assert made.status_code in (200, 201), made.text
    edited = story.host.rest("PUT", f"/tenants/{story.tenant}", json={"name": "Isolation"})
    return str(edited.headers["Tenantry-Version"])


def _only_a_version(story: Story, version: str) -> None:
    listed = story.rest("GET", "/environments", headers={"Tenantry-Version": version}).json()
    assert [each["id"] for each in listed] == [story.environments[1]]


def _plans(story: Story) -> str:
    planned = story.rest("POST", "/environments?dryRun=true", json={**HERE, "slug": "planned"})
    assert planned.status_code == 200, planned.text
    return str(planned.json()["digest"])


def _plan_has_moved(story: Story, digest: str) -> None:
    wanted = {**HERE, "slug": "planned"}
    assert story.rest("POST", "/environments?dryRun=true", json=wanted).json()["digest"] != digest
    assert story.rest("POST", "/environments", json=wanted, headers={"If-Plan": digest}).status_code == 412


def _not_restored(story: Story, _: Any) -> None:
    gone = story.host.cli("restore", story.environments[0])
    assert gone.returncode != 0, gone.stdout
    assert {each["id"] for each in story.host.rest("GET", "/environments").json()} == {story.environments[1]}


def _other_tenant(story: Story, _: Any) -> None:
    assert story.tenants[0] != story.tenants[1], "the second POST had the key of the first"


REFERENCES = {
    "User": Reference(
        "its Tenant by name",
        "refused: bound to the uid in `status.tenant`; made over REST it goes with its Tenant, declared it is `TenantReplaced`",
        "the same Tenant",
        lambda story: None,
        lambda story, _: _signs_in(story),
        (
            "tests/scenario/test_tenants_made_again.py::test_a_user_that_is_declared_stays_and_is_let_in_by_an_edit_of_its_declaration",
        ),
    ),
    "Token of a User": Reference(
        "the User by id",
        "refused: it ends with the User, its role, password and the uid of its Tenant",
        "ends when the User changes",
        lambda story: None,
        lambda story, _: _token(story),
        ("tests/unit/api/test_authentication.py::test_a_token_ends_when",),
    ),
    "Token of a trusted issuer": Reference(
        "the Tenant by its id in REST",
        "refused: the id of a deleted Tenant is nobody's",
        "the same Tenant",
        proofs=("tests/security/test_trusted_issuers.py::test_a_token_ends_with_its_tenant",),
    ),
    "Identity, its tokens and sessions": Reference(
        "its Environment by name",
        "gone with the engine, whose keys sign its tokens and cookies",
        "made again in the new engine, with a new key",
        _makes_identity,
        _no_identity,
        ("tests/scenario/test_sign_in.py::test_a_token_for_another_audience_or_of_another_key_is_refused",),
    ),
    "Idempotency-Key": Reference(
        "what the same request made",
        "not found: what it made is gone, and the key of a tenant's user counts in that Tenant only, by uid",
        "the same answer for 24 hours",
        lambda story: None,
        _other_tenant,
        ("tests/unit/api/test_preconditions.py::test_the_marks_of_a_request_differ_by_caller_key_body_and_place",),
    ),
    "Bytes of a Package": Reference(
        "the Tenant by name, and their sha256",
        "gone: they are removed at the end of the Tenant's deletion, before its name is free",
        "followed: the same sha256 is the same bytes",
        _pushes,
        _no_bytes,
        ("tests/contract/test_packages.py::test_all_of_a_tenants_packages_are_removed_and_nobody_elses",),
    ),
    "Signature and keys of a Package": Reference(
        "the bytes by their BLAKE2b, the key by its value",
        "refused: no name is involved",
        "followed: other bytes need another signature",
        proofs=("tests/unit/kinds/test_signatures.py::test_a_good_signature_is_none_of_other_bytes",),
    ),
    "Secret": Reference(
        "by name, in the object's own namespace",
        "gone with the namespace of the Tenant",
        "followed: a Secret that is made again is a rotation",
        _keeps_secret,
        _no_secret,
    ),
    "Source and its clone": Reference(
        "the Source by its uid, in the Tenant's namespace",
        "gone with the namespace of the Tenant; a clone belongs to the uid of its Source",
        "followed: it is read anew",
        proofs=("tests/scenario/test_tenant_sources.py::test_a_tenant_goes_with_its_source",),
    ),
    "Write-back": Reference(
        "the Source by the label on the object",
        "refused: a Tenant's Source writes what is in that Tenant's namespace only",
        "followed",
        proofs=("tests/unit/runtime/test_writers.py::test_a_tenant_s_source_is_not_written_by_a_label_on_what_is_another_s",),
    ),
    "Approval": Reference(
        "each object by its uid",
        "refused: an object that was made again has another uid",
        "refused: approve again",
        proofs=("tests/unit/runtime/test_sync.py::test_what_was_approved_is_pruned_and_nothing_else",),
    ),
    "Kept archive or volume": Reference(
        "the Environment's id, namespace and name",
        "refused: it holds the uid of its Tenant; a platform administrator may name another place by `--as`",
        "followed: `restore ID` makes the environment again",
        lambda story: None,
        _not_restored,
        ("tests/scenario/test_backup.py::test_what_a_deleted_tenant_left_is_not_restored_to_the_next_of_its_name",),
    ),
    "Engine that was retained": Reference(
        "the Environment's id, namespace and name",
        "refused (`EngineTaken`): its record holds the uid of its Tenant; a volume of a cluster comes back by `restore` only",
        "followed: an Environment with that `spec.id` takes it up again",
        proofs=("tests/unit/adapters/local/test_local.py::test_an_engine_that_was_kept_is_not_the_next_tenants_of_the_name",),
    ),
    "Plan digest": Reference(
        "what it was made from, and what would happen",
        "refused: the digest holds the uids of the objects, and of the Tenant of each namespace",
        "refused once an object is another",
        _plans,
        _plan_has_moved,
    ),
    "Tenantry-Version": Reference(
        "a version of the store",
        "names no object: it says only how new an answer must be",
        "the same",
        _version,
        _only_a_version,
    ),
    "Namespace that is adopted": Reference(
        "by name, with the label `tenantry.dev/tenant`",
        "refused while it holds what the first Tenant left (`NamespaceNotEmpty`): it was released, not deleted",
        "bound by its uid in `status.namespace`",
        _adopts,
        _does_not_inherit,
        ("tests/unit/adapters/test_tenancy.py::test_what_an_earlier_tenant_left_is_not_the_next_ones",),
    ),
    "Region.spec.tenants": Reference(
        "Tenants by name",
        "refused: bound to the uid in `status.tenants`; take the name out and add it again to let the new Tenant in",
        "the same Tenant",
        _may_use_region,
        _may_not_use_region,
        ("tests/unit/kinds/test_region.py::test_a_region_is_open_to",),
    ),
    "Operation": Reference(
        "its Tenant by uid and id",
        "stays the first Tenant's: only a SUPERUSER finds it",
        "the same Tenant",
        lambda story: None,
        _own_operations,
        ("tests/scenario/test_operation_filters.py::test_operations_of_a_deleted_tenant_keep_its_id",),
    ),
}
TRIED = {name: each for name, each in REFERENCES.items() if each.after is not None}


def as_markdown() -> str:
    """The table of docs/security-model.md."""
    rows = [f"| {name} | {each.names} | {each.across} | {each.within} |" for name, each in REFERENCES.items()]
    head = [
        "| reference | names its target by | the target is another customer's by now | the target was made again in its tenant |"
    ]
    return "\n".join([*head, "| --- | --- | --- | --- |", *rows])
