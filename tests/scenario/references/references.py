"""Every reference by name, slug or id, and what becomes of it when its target is deleted and made again.

docs/security-model.md publishes this table; test_references.py tries it on every host, and that no row is without a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.scenario.references import reference_packages as packages
from tests.scenario.references import reference_sources as sources
from tests.scenario.references import reference_tries as tries
from tests.scenario.references.reference_story import Story


@dataclass(frozen=True)
class Reference:
    """names: by what it names its target. across: with another customer's target of the name; within: with one of the same
    tenant. before, after: the try of `across`, in the first tenant and the second; again: the try of `within`, in the second.
    proofs: tests elsewhere, as `file::name`."""

    names: str
    across: str
    within: str
    before: Callable[[Story], Any] | None = None
    after: Callable[[Story, Any], None] | None = None
    again: Callable[[Story], None] | None = None
    proofs: tuple[str, ...] = ()


REFERENCES = {
    "User": Reference(
        "its Tenant by name",
        "refused: bound to the uid in `status.tenant`; made over REST it goes with its Tenant, declared it is `TenantReplaced`",
        "the same Tenant",
        tries.nothing,
        lambda story, _: tries.cannot_sign_in(story),
        proofs=(
            "tests/scenario/references/test_tenants_made_again.py::test_a_user_that_is_declared_stays_and_is_let_in_by_an_edit_of_its_declaration",
        ),
    ),
    "Token of a User": Reference(
        "the User by id",
        "refused: it ends with the User, its role, password and the uid of its Tenant",
        "ends when the User changes",
        tries.nothing,
        lambda story, _: tries.token_is_refused(story),
        proofs=("tests/unit/api/auth/test_authentication.py::test_a_token_ends_when",),
    ),
    "Token of a trusted issuer": Reference(
        "the Tenant by its id in REST",
        "refused: the id of a deleted Tenant is never used again, and a name or slug is not an id",
        "the same Tenant",
        tries.is_trusted,
        tries.is_not_trusted,
        proofs=("tests/security/test_trusted_issuers.py::test_a_token_ends_with_its_tenant",),
    ),
    "Identity, its tokens and sessions": Reference(
        "its Environment by name",
        "gone with the engine, whose keys sign its tokens and cookies",
        "made again in the new engine, with a new key",
        tries.makes_identity,
        tries.has_no_identity,
        proofs=("tests/scenario/people/test_sign_in.py::test_a_token_for_another_audience_or_of_another_key_is_refused",),
    ),
    "Idempotency-Key": Reference(
        "what the same request made",
        "not found: what it made is gone, and the key of a tenant's user counts in that Tenant only, by uid",
        "the same answer for 24 hours",
        tries.nothing,
        tries.is_another_tenant,
        proofs=("tests/unit/api/writing/test_preconditions.py::test_the_marks_of_a_request_differ_by_caller_key_body_and_place",),
    ),
    "Bytes of a Package": Reference(
        "the Tenant by name, and their sha256",
        "gone: they are removed at the end of the Tenant's deletion, before its name is free",
        "followed: the same sha256 is the same bytes",
        packages.pushes,
        packages.has_no_bytes,
        packages.is_another_package,
        proofs=("tests/contract/test_packages.py::test_all_of_a_tenants_packages_are_removed_and_nobody_elses",),
    ),
    "Signature and keys of a Package": Reference(
        "the bytes by their BLAKE2b, the key by its value",
        "refused: a signature belongs to the Package that it was pushed for, and goes with it",
        "refused: other bytes need another signature",
        packages.signs,
        packages.has_no_signature,
        packages.needs_another_signature,
        proofs=("tests/unit/kinds/test_signatures.py::test_a_good_signature_is_none_of_other_bytes",),
    ),
    "App.spec.allowDropsFor": Reference(
        "a version of the App, with or without the list of what is lost",
        "gone with the App: it is in its spec",
        "refused: an App that was made again allows nothing by itself",
        packages.allows_drops,
        packages.may_not_drop,
        packages.allows_drops_again,
        proofs=("tests/unit/kinds/test_app.py::test_drops",),
    ),
    "Secret": Reference(
        "by name, in the object's own namespace",
        "gone with the namespace of the Tenant",
        "followed: a Secret that is made again is a rotation",
        tries.keeps_secret,
        tries.has_no_secret,
        tries.turns_password,
    ),
    "Source and its clone": Reference(
        "the Source by its uid, in the Tenant's namespace",
        "gone with the namespace of the Tenant; a clone belongs to the uid of its Source",
        "followed: it is read again, and continues with the objects that it had applied",
        sources.clones,
        sources.has_no_clone,
        sources.is_read_anew,
        proofs=("tests/scenario/git/test_tenant_sources.py::test_a_tenant_goes_with_its_source",),
    ),
    "Approval of what left a Source": Reference(
        "each object by its uid",
        "refused: an object that was made again has another uid",
        "refused: approve again",
        sources.approves,
        sources.was_not_approved,
        sources.is_approved_again,
        proofs=("tests/unit/runtime/sources/test_sync.py::test_what_was_approved_is_pruned_and_nothing_else",),
    ),
    "Kept archive or volume": Reference(
        "the Environment's id, namespace and name",
        "refused: it holds the uid of its Tenant; a platform administrator may name another place by `--as`",
        "followed: `restore ID` makes the environment again",
        tries.nothing,
        tries.is_not_restored,
        proofs=(
            "tests/scenario/backups/test_backup.py::test_what_a_deleted_tenant_left_is_not_restored_to_the_next_of_its_name",
        ),
    ),
    "Engine that was retained": Reference(
        "the Environment's id, namespace and name",
        "refused (`EngineTaken`): its record holds the uid of its Tenant; a volume of a cluster comes back by `restore` only",
        "followed: an Environment with that `spec.id` takes it up again",
        tries.retains_engine,
        tries.engine_is_not_taken_up,
        proofs=("tests/unit/adapters/local/test_local.py::test_an_engine_that_was_kept_is_not_the_next_tenants_of_the_name",),
    ),
    "Plan digest": Reference(
        "what it was made from, and what would happen",
        "refused: the digest holds the uids of the objects, and of the Tenant of each namespace",
        "refused once an object is another",
        tries.plans,
        tries.plan_has_moved,
    ),
    "Tenantry-Version": Reference(
        "a version of the store",
        "names no object: it says only how new an answer must be",
        "the same",
        tries.sees_version,
        tries.is_only_a_version,
    ),
    "Namespace that is adopted": Reference(
        "by name, with the label `tenantry.dev/tenant`",
        "refused while it holds what the first Tenant left (`NamespaceNotEmpty`): it was released, not deleted",
        "bound by its uid in `status.namespace`",
        tries.adopts,
        tries.does_not_inherit,
        proofs=("tests/unit/adapters/test_tenancy.py::test_what_an_earlier_tenant_left_is_not_the_next_ones",),
    ),
    "Region.spec.tenants": Reference(
        "Tenants by name",
        "refused: bound to the uid in `status.tenants`; take the name out and add it again to let the new Tenant in",
        "the same Tenant",
        tries.may_use_region,
        tries.may_not_use_region,
        proofs=("tests/unit/kinds/test_region.py::test_a_region_is_open_to",),
    ),
    "Operation": Reference(
        "its Tenant by uid and id",
        "stays the first Tenant's: only a SUPERUSER finds it",
        "the same Tenant",
        tries.nothing,
        tries.sees_own_operations,
        proofs=("tests/scenario/rest/test_operation_filters.py::test_operations_of_a_deleted_tenant_keep_its_id",),
    ),
    "Write-back": Reference(
        "the Source by the label on the object",
        "refused: a Tenant's Source writes what is in that Tenant's namespace only, and goes with it",
        "followed: what the Source declares is written to its repository again",
        sources.writes,
        sources.writes_elsewhere,
        sources.is_written_again,
        proofs=(
            "tests/unit/runtime/sources/test_writers.py::test_a_tenant_s_source_is_not_written_by_a_label_on_what_is_another_s",
        ),
    ),
}
TRIED = {name: each for name, each in REFERENCES.items() if each.after is not None}
MADE_AGAIN = {name: each for name, each in REFERENCES.items() if each.again is not None}


def as_markdown() -> str:
    """The table of docs/security-model.md."""
    rows = [f"| {name} | {each.names} | {each.across} | {each.within} |" for name, each in REFERENCES.items()]
    head = [
        "| reference | names its target by | the target is another customer's now | the target was made again in its tenant |"
    ]
    return "\n".join([*head, "| --- | --- | --- | --- |", *rows])
