"""Our verdicts for an API server's refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.kubernetes.client.wire import endpoint, object_path, refusal, told
from tenantry.model.resource import Ref
from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    QuotaExceeded,
    Stalled,
    Transient,
    Unauthorized,
)

REFUSALS = {
    "unauthorized": (401, {"reason": "Unauthorized"}, Unauthorized),
    "forbidden": (403, {"reason": "Forbidden"}, Forbidden),
    "absent": (404, {"reason": "NotFound"}, NotFound),
    "taken": (409, {"reason": "AlreadyExists"}, AlreadyExists),
    "changed": (409, {"reason": "Conflict"}, Conflict),
    "a failed test of a patch": (422, {"reason": "Invalid", "message": "the server rejected our request"}, Conflict),
    "expired": (410, {"reason": "Expired"}, Expired),
    "a version of the future": (504, {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}, Expired),
    "too large": (413, {"reason": "RequestEntityTooLarge"}, Invalid),
}


@pytest.mark.parametrize(("status", "said", "halt"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_has_its_halt(status: int, said: dict[str, Any], halt: type[Halt]) -> None:
    assert type(refusal(status, said)) is halt


QUOTAS = {
    "it is full": "exceeded quota: q, requested: count/secrets=1, used: count/secrets=4, limited: count/secrets=4",
    "it wants what is not given": "failed quota: q: must specify requests.cpu for: engine",
    "it is not counted yet": "status unknown for quota: q, resources: pods",
}


@pytest.mark.parametrize("why", QUOTAS.values(), ids=QUOTAS)
def test_a_quota_that_refuses_is_tried_again_and_is_still_a_refusal_to_who_asks(why: str) -> None:
    halt = refusal(403, {"reason": "Forbidden", "message": f'secrets "dev-admin" is forbidden: {why}'})
    assert type(halt) is QuotaExceeded
    assert isinstance(halt, Forbidden)
    assert halt.verdict == Transient("QuotaExceeded", f'secrets "dev-admin" is forbidden: {why}')


def test_what_the_server_cannot_do_now_is_tried_again() -> None:
    for status in (429, 500, 502, 503, 504):
        assert isinstance(refusal(status, {}).verdict, Transient)


def test_what_we_should_not_have_asked_is_for_the_operator() -> None:
    assert refusal(405, {"reason": "MethodNotAllowed", "message": "no"}).verdict == Stalled("MethodNotAllowed", "no", "Operator")


BODIES = {"a proxy's page": b"<html>busy</html>", "nothing": b"", "a list": b"[]", "bytes": b"\xff\xfe"}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_refusal_that_is_no_status_is_a_refusal(body: bytes) -> None:
    assert refusal(502, told(body)).verdict.reason == "HTTP502"


FIELDS = {
    "a cause": ({"message": "m", "details": {"causes": [{"field": "spec.slug", "message": "bad"}]}}, ["spec.slug"]),
    "the whole": ({"message": "m", "details": {"causes": [{"field": "<nil>", "message": "bad"}]}}, [""]),
    "two unknown fields": (
        {"message": 'strict decoding error: unknown field "spec.a", unknown field "spec.b[0].c"'},
        ["spec.a", "spec.b[0].c"],
    ),
    "two unknown fields of a patch": (
        {
            "message": "patch: Invalid value",
            "details": {
                "causes": [
                    {
                        "field": "patch",
                        "message": 'Invalid value: "{}": strict decoding error: unknown field "spec.a", unknown field "spec.b"',
                    }
                ]
            },
        },
        ["spec.a", "spec.b"],
    ),
    "metadata of another type": (
        {"message": "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
        ["metadata.labels"],
    ),
    "metadata, as kubectl says it": (
        {"message": "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string"},
        ["metadata.labels"],
    ),
    "another type": (
        {"message": "json: cannot unmarshal number into Go struct field Secret.stringData of type string"},
        ["stringData"],
    ),
    "another version": (
        {"message": "the API version in the data () does not match the expected API version (v1)"},
        ["apiVersion"],
    ),
    "a version that is not served": (
        {"message": 'Package in version "v9" cannot be handled as a Package: strict decoding error: unknown field "spec"'},
        ["apiVersion"],
    ),
    "a version that is a number": (
        {"message": "json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string"},
        ["apiVersion"],
    ),
    "rules that were not checked": (
        {
            "details": {
                "causes": [
                    {"field": "spec.slug", "message": "bad"},
                    {"field": "<nil>", "message": "some validation rules were not checked because the object was invalid"},
                ]
            }
        },
        ["spec.slug"],
    ),
    "no field at all": ({"message": "illegal base64 data"}, [""]),
}


@pytest.mark.parametrize(("said", "fields"), FIELDS.values(), ids=FIELDS)
def test_an_invalid_object_is_told_by_field(said: dict[str, Any], fields: list[str]) -> None:
    halt = refusal(400, said)
    assert isinstance(halt, Invalid)
    assert [problem.field for problem in halt.problems] == fields


def test_paths_name_group_namespace_and_subresource() -> None:
    assert (
        object_path(Ref("Environment", "t", "dev"), "status")
        == "/apis/tenantry.dev/v1alpha1/namespaces/t/environments/dev/status"
    )
    assert object_path(Ref("Namespace", "", "t")) == "/api/v1/namespaces/t"
    assert endpoint("Environment").path() == "/apis/tenantry.dev/v1alpha1/environments"


def test_a_name_cannot_leave_its_path() -> None:
    assert object_path(Ref("Tenant", "", "../users/ann")) == "/apis/tenantry.dev/v1alpha1/tenants/..%2Fusers%2Fann"


@pytest.mark.parametrize("ref", [Ref("Tenant", "", ""), Ref("Environment", "", "dev"), Ref("Pod", "t", "p")])
def test_an_incomplete_reference_is_refused(ref: Ref) -> None:
    with pytest.raises(Invalid):
        object_path(ref)
