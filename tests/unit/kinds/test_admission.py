"""The embedded host refuses and fills in what the API server does."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.admission import Admission
from tenantry.kinds.structural import Structural
from tenantry.model.verdicts import Invalid
from tests.support.reference_work import cost


@pytest.fixture(scope="module")
def admission() -> Admission:
    return Admission()


def environment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": "dev", "namespace": "tenant-acme"},
        "spec": {"region": "local", **spec},
    }


def secret(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "tenant-acme"}, **fields}


def refusals(admission: Admission, document: dict[str, Any], old: Any = None) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        admission.admit(document, old)
    return {problem.field: problem.reason for problem in refused.value.problems}


def test_defaults_are_filled_in_at_every_depth(admission: Admission) -> None:
    admitted = admission.admit(environment(), None)

    assert admitted["spec"] == {
        "region": "local", "deletionProtection": False, "deletionPolicy": "Snapshot", "suspend": False,
        "driftPolicy": "Correct", "engine": {"unmanaged": "Keep"},
    }  # fmt: skip
    assert admitted["status"] == {"observedGeneration": -1}


def test_a_null_is_absent_or_takes_the_default(admission: Admission) -> None:
    admitted = admission.admit(environment(slug=None, engine=None, deletionPolicy=None), None)

    assert admitted == admission.admit(environment(), None)


def test_the_document_itself_is_left_as_it_was(admission: Admission) -> None:
    document = environment(engine={})
    admission.admit(document, None)

    assert document == environment(engine={})


def test_an_admitted_document_is_admitted_as_it_is(admission: Admission) -> None:
    admitted = admission.admit(environment(slug="a"), None)

    assert admission.admit(admitted, admitted) == admitted


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        pytest.param(
            {"driftPolicy": "warn"}, "spec.driftPolicy", 'Unsupported value: "warn": supported values: "Correct", "Warn"'
        ),
        pytest.param({"region": None}, "spec.region", "Required value"),
        pytest.param({"suspend": 1}, "spec.suspend", "Invalid value: 1: must be true or false"),
        pytest.param({"slug": "a" * 31}, "spec.slug", "Too long: may not be more than 30 characters"),
        pytest.param({"slug": "www"}, "spec.slug", 'Invalid value: "www": is reserved'),
        pytest.param({"engine": {"sise": "s"}}, "spec.engine.sise", 'unknown field "spec.engine.sise"; did you mean size?'),
    ],
)
def test_a_refusal_names_field_and_reason(admission: Admission, spec: dict[str, Any], field: str, reason: str) -> None:
    assert refusals(admission, environment(**spec)) == {field: reason}


def test_every_problem_of_a_document_is_told_at_once(admission: Admission) -> None:
    assert set(refusals(admission, environment(slug="A", foo=1, engine={"unmanaged": "no"}))) == {
        "spec.slug", "spec.foo", "spec.engine.unmanaged",
    }  # fmt: skip


def test_a_misspelt_kind_is_answered_with_the_nearest(admission: Admission) -> None:
    assert "did you mean 'Environment'?" in refusals(admission, {**environment(), "kind": "Enviroment"})["kind"]


@pytest.mark.parametrize("document", [{}, {"kind": 1, "apiVersion": "v1"}, {"kind": [], "apiVersion": {}}])
def test_what_is_no_object_at_all_is_refused(admission: Admission, document: dict[str, Any]) -> None:
    assert refusals(admission, document)


@pytest.mark.parametrize("metadata", [None, [], "x", {}, {"name": None}, {"name": 1}, {"name": {"a": 1}}])
def test_ill_formed_metadata_is_refused(admission: Admission, metadata: Any) -> None:
    assert refusals(admission, {**environment(), "metadata": metadata})


def test_an_immutable_field_is_compared_with_the_stored_object(admission: Admission) -> None:
    old = admission.admit(environment(), None)

    assert refusals(admission, environment(region="eu"), old) == {"spec.region": 'Invalid value: "eu": is immutable'}


def test_what_was_refused_before_and_has_not_changed_is_let_be(admission: Admission) -> None:
    old = environment(slug="UPPER", suspend=False)

    assert admission.admit(environment(slug="UPPER", suspend=True), old)["spec"]["suspend"] is True
    assert set(refusals(admission, environment(slug="OTHER"), old)) == {"spec.slug"}


def test_a_status_is_validated_too(admission: Admission) -> None:
    old = admission.admit(environment(), None)

    assert set(refusals(admission, {**old, "status": {"phase": "Ready"}}, old)) == {"status.phase"}


def test_a_secrets_clear_text_becomes_data_and_base64_is_put_on_one_line(admission: Admission) -> None:
    admitted = admission.admit(secret(stringData={"a": "hello"}, data={"b": "aGVs\nbG8=\n"}), None)

    assert admitted["data"] == {"a": "aGVsbG8=", "b": "aGVsbG8="}
    assert "stringData" not in admitted
    assert admitted["type"] == "Opaque"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"data": {"password": "canary"}}, id="not base64"),
        pytest.param({"stringData": {"password": ["canary"]}}, id="not a string"),
        pytest.param({"stringData": ["canary"]}, id="not a mapping"),
        pytest.param({"stringData": {"a b": "canary"}}, id="ill-formed key"),
        pytest.param({"type": {"x": "canary"}}, id="another field"),
    ],
)
def test_a_secrets_value_is_never_shown(admission: Admission, fields: dict[str, Any]) -> None:
    assert "canary" not in str(refusals(admission, secret(**fields)))


def test_a_long_value_is_shown_in_part(admission: Admission) -> None:
    assert len(refusals(admission, environment(engine={"unmanaged": "x" * 5000}))["spec.engine.unmanaged"]) < 200


def test_an_unknown_kind_has_no_scope(admission: Admission) -> None:
    with pytest.raises(Invalid):
        admission.namespaced("Deployment")


@pytest.mark.parametrize(
    ("kind", "namespaced", "has_status"),
    [
        ("Tenant", False, True),
        ("Environment", True, True),
        ("Operation", True, False),
        ("Namespace", False, True),
        ("Secret", True, False),
    ],
)
def test_scope_and_status_of_a_kind(admission: Admission, kind: str, namespaced: bool, has_status: bool) -> None:
    assert (admission.namespaced(kind), admission.has_status(kind)) == (namespaced, has_status)


@pytest.mark.slow
def test_2000_documents_are_admitted_quickly(admission: Admission) -> None:
    documents = [environment(slug=f"env-{n}", engine={"size": "small"}) for n in range(2000)]

    def admit() -> None:
        for document in documents:
            admission.admit(document, None)

    assert cost(admit, 3) < 80


def test_a_pattern_that_both_engines_read_differently_is_refused() -> None:
    with pytest.raises(ValueError, match="spell its class out"):
        Structural({"type": "object", "properties": {"a": {"type": "string", "pattern": r"^\w+$"}}})


def test_rules_are_judged_for_every_item_of_a_list() -> None:
    rule = {"rule": "self != 'b'", "message": "is not b"}
    items = {"type": "string", "x-kubernetes-validations": [rule]}
    structural = Structural({"type": "object", "properties": {"l": {"type": "array", "items": items}}})

    assert [f.problem().field for f in structural.findings({"l": ["a", "b", "c", "b"]}, None)] == ["l[1]", "l[3]"]


def test_a_rule_that_cannot_be_evaluated_refuses() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "self.a == ''"}]}

    (finding,) = Structural(schema).findings({}, None)

    assert "could not be checked" in finding.reason


@pytest.mark.parametrize("field", ["region", "deletionPolicy", "packageKeys", "suspend"])
def test_a_map_in_the_place_of_another_type_has_unknown_fields(admission: Admission, field: str) -> None:
    assert refusals(admission, environment(**{field: {"a": 1, "b": 2}})).keys() == {f"spec.{field}.a", f"spec.{field}.b"}


def test_an_empty_map_in_the_place_of_another_type_is_refused_itself(admission: Admission) -> None:
    assert refusals(admission, environment(region={})).keys() == {"spec.region"}


LONG = "x" * 64
MUST = "must be letters, digits, '-', '_' and '.', with a letter or digit at both ends, or empty"
NAME = "must be a name such as team, or a host and a name, such as example.com/team"
REFUSED_LABELS = {
    "a value of spaces": ("labels", {"team": "b c", "good": "yes"}, f'label "team": Invalid value: "b c": {MUST}'),
    "a number": ("labels", {"example.com/team": 1}, 'label "example.com/team": Invalid value: 1: must be a string'),
    "a truth": ("labels", {"a": True}, 'label "a": Invalid value: true: must be a string'),
    "a long value": ("labels", {"a": LONG}, f'label "a": Too long: "{LONG}": may not be more than 63 characters'),
    "a key of spaces": ("labels", {"a b": "c"}, f'key Invalid value: "a b": {NAME}'),
    "a long key": ("labels", {"a" * 318: "c"}, f'key Too long: "{"a" * 79}...: may not be more than 317 characters'),
    "an annotation": ("annotations", {"note": 1}, 'annotation "note": Invalid value: 1: must be a string'),
}


@pytest.mark.parametrize(("part", "given", "reason"), REFUSED_LABELS.values(), ids=REFUSED_LABELS)
def test_a_refused_label_or_annotation_is_named(part: str, given: Any, reason: str, admission: Admission) -> None:
    document = environment()
    document["metadata"][part] = given
    with pytest.raises(Invalid) as refused:
        admission.admit(document, None)
    assert (f"metadata.{part}", reason) in {(each.field, each.reason) for each in refused.value.problems}


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_refused_label_of_a_secret_is_named_without_its_value(part: str, admission: Admission) -> None:
    document = secret()
    document["metadata"][part] = {"team": 4711, "a b": "c"}
    with pytest.raises(Invalid) as refused:
        admission.admit(document, None)
    reasons = " ".join(each.reason for each in refused.value.problems)
    assert f'{part.removesuffix("s")} "team": ' in reasons
    assert 'key Invalid value: "a b"' in reasons
    assert "4711" not in reasons
