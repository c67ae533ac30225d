"""Plain words that YAML does not read as text are explained, in resources and in app.yaml alike, at their line."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tenantry.adapters.sources.documents import declare
from tenantry.adapters.sources.sops import Sops
from tenantry.kinds import core, crds
from tenantry.kinds.admission import Admission
from tenantry.model.tree import SourceProblem
from tenantry.model.verdicts import Invalid
from tenantry.packages.parsing import parse_manifest
from tenantry.packages.yaml_text import fault_of

PACKAGE = """apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata: {name: crm, namespace: tenantry-system}
spec:
  app: crm
  version: %s
"""
MANIFEST = """apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: %s
"""
BOTH = {
    "1.0": "the number 1",
    "1.10": "the number 1.1",
    "2": "the number 2",
    "010": "the number 8",
    "0x1F": "the number 31",
    "on": "true",
    "no": "false",
    "yes": "true",
    "Off": "false",
    "~": "nothing",
    "null": "nothing",
}
ONLY_APP_YAML = {"2026-11-23": "a date", "2026-11-23 08:00:00": "a time", "1:30": "the number 90"}
"""Resources keep these as text, as the parser of the API server does."""


def problems_of_file(text: str) -> list[str]:
    problems: list[SourceProblem] = []
    admission = Admission()
    declare([("a.yaml", text.encode())], lambda document: admission.admit(document, None), Sops(), problems)
    return [str(problem) for problem in problems]


def problems_of_manifest(text: str) -> list[str]:
    with pytest.raises(Invalid) as refused:
        parse_manifest(text.encode())
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(("word", "meaning"), BOTH.items())
def test_a_resource_says_what_yaml_reads_and_what_to_write(word: str, meaning: str) -> None:
    (told,) = problems_of_file(PACKAGE % word)

    assert told.startswith("a.yaml:6: spec.version: ")
    assert f'; YAML reads {word} as {meaning}: write "{word}"' in told or meaning == "nothing"


@pytest.mark.parametrize(("word", "meaning"), (BOTH | ONLY_APP_YAML).items())
def test_an_app_yaml_says_what_yaml_reads_and_what_to_write(word: str, meaning: str) -> None:
    (told,) = problems_of_manifest(MANIFEST % word)

    meaning = "the number 1.0" if word == "1.0" else meaning
    assert told == f'app.yaml:4: version: must be a string; YAML reads {word} as {meaning}: write "{word}"'


@pytest.mark.parametrize("word", ONLY_APP_YAML)
def test_a_date_is_text_in_a_resource(word: str) -> None:
    assert not any("YAML reads" in told for told in problems_of_file(PACKAGE % word))


def test_a_choice_that_yaml_reads_as_a_truth_is_explained() -> None:
    source = "apiVersion: tenantry.dev/v1alpha1\nkind: Source\nmetadata: {name: a, namespace: tenantry-system}\nspec:\n"
    told = problems_of_file(f"{source}  url: https://git.example.com/a\n  writeBack:\n    mode: Off\n")

    assert any(text.startswith("a.yaml:7: spec.writeBack.mode: ") and 'write "Off"' in text for text in told)


def test_a_quoted_number_is_explained() -> None:
    told = problems_of_manifest(
        MANIFEST % "'1'" + "tables:\n- name: t\n  primaryKey: [a]\n  columns:\n  - {name: a, type: string, length: '9'}\n"
    )
    assert told == ["app.yaml:9: tables[0].columns[0].length: must be a whole number; write 9 without quotes"]


def test_an_empty_value_is_explained() -> None:
    assert problems_of_manifest(MANIFEST % "") == [
        'app.yaml:4: version: must be a string; YAML reads an empty value as nothing: write ""'
    ]


# Typing errors


def _misspelt(name: str) -> str:
    return name[:-2] + name[-1] + name[-2] if len(name) > 3 and name[-1] != name[-2] else name + name[-1]


FIELDS = [
    pytest.param(kind, name, id=f"{kind.KIND}.{name}")
    for kind in crds.KINDS
    for name in core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED)["properties"]["spec"].get(
        "properties", ()
    )
]


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_misspelt_field_of_a_kind_has_a_suggestion(kind: crds.Kind, name: str) -> None:
    head = f"apiVersion: tenantry.dev/v1alpha1\nkind: {kind.KIND}\nmetadata: {{name: a, namespace: b}}\n"
    told = problems_of_file(f"{head}spec:\n  {_misspelt(name)}: 1\n")

    assert f'a.yaml:5: spec.{_misspelt(name)}: unknown field "spec.{_misspelt(name)}"; did you mean {name}?' in told


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.KIND)
def test_a_misspelt_kind_has_a_suggestion(kind: crds.Kind) -> None:
    (told,) = problems_of_file(f"apiVersion: tenantry.dev/v1alpha1\nkind: {_misspelt(kind.KIND)}\nmetadata: {{name: a}}\n")

    assert f"did you mean {kind.KIND!r}?" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nmae: CRM\n", "app.yaml:5: nmae: is not a known field; did you mean name?"),
        ("tables:\n- nam: t\n", "app.yaml:6: tables[0].nam: is not a known field; did you mean name?"),
        (
            "tables:\n- columns:\n  - typ: text\n",
            "app.yaml:7: tables[0].columns[0].typ: is not a known field; did you mean type?",
        ),
        (
            "tables:\n- foreignKeys:\n  - ondelete: cascade\n",
            "tables[0].foreignKeys[0].ondelete: is not a known field; did you mean onDelete?",
        ),
        ("roles:\n  1x: {}\n", "app.yaml:6: roles.1x: must be 1 to 63 letters, digits and '_', beginning with a letter"),
    ],
)
def test_a_misspelt_field_of_an_app_yaml_has_a_suggestion_and_its_line(text: str, told: str) -> None:
    assert any(told in each for each in problems_of_manifest(MANIFEST % "'1'" + text))


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb:\n\tc: 1\n", (3, "use spaces")),
        ("a: b: c\n", (1, "a `:` is not allowed here; check the indentation, or quote the text")),
        ("kind: Tenant\n  metadata: x\n", (2, "a `:` is not allowed here; check the indentation, or quote the text")),
    ],
)
def test_a_fault_is_said_in_words_of_the_file(text: str, fault: tuple[int, str], loader: Any) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        yaml.load(text, loader)
    line, reason = fault_of(raised.value)
    assert line == fault[0]
    assert fault[1] in reason
