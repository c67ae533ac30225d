"""`tenantry explain`."""

from __future__ import annotations

import pytest

from tenantry.cli.commands.platform.explain import explain
from tenantry.cli.output.failing import Failure, explanation_of
from tenantry.model.verdicts import EngineTaken, Halt, Invalid, NotFound, Problem, Transient
from tenantry.reasons.table import REASONS


@pytest.mark.parametrize("given", ["DataMissing", "datamissing"])
def test_a_reason_is_explained_in_either_case(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    explain(given)

    shown = capsys.readouterr().out
    assert shown.startswith(f"DataMissing: {REASONS['DataMissing'].meaning}\n")
    assert REASONS["DataMissing"].action in shown
    assert "/docs/reasons/#datamissing" in shown


def test_a_status_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    explain("412")

    assert "/docs/reasons/#http-412" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "hint"), [("DataMising", "did you mean DataMissing?"), ("xyzzy", "tenantry describe")])
def test_an_unknown_reason_is_refused_with_a_hint(given: str, hint: str) -> None:
    with pytest.raises(Failure, match="is not a reason") as refused:
        explain(given)

    assert hint in str(refused.value)
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("error", "explanation"),
    [
        (EngineTaken("1"), "`tenantry explain EngineTaken` says what to do"),
        (Halt(Transient("ServiceUnavailable", "of an API server")), ""),
        (NotFound("no such tenant"), ""),
        (Invalid((Problem("spec.slug", "is too long"),)), ""),
        (Failure("the folder is not empty"), ""),
    ],
)
def test_a_failed_command_names_the_explanation_of_its_reason(error: Exception, explanation: str) -> None:
    assert explanation_of(error) == explanation
