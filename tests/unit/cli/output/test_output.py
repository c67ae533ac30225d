"""Printed texts: ages, tables, columns, trees, descriptions."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
import yaml

from tenantry.cli.arguments.finding import choose, split
from tenantry.cli.arguments.kinds import at, find_kind, kinds
from tenantry.cli.commands.objects.branches import branch, state_of
from tenantry.cli.commands.objects.describing import described
from tenantry.cli.output.documents import OutputFormat, print_documents
from tenantry.cli.output.failing import Failure
from tenantry.cli.output.tables import Layout, TextTable, age, print_table
from tenantry.kinds.crds import KINDS
from tests.scenario.cli import Terminal

Json = dict[str, Any]


def document(kind: str, name: str, namespace: str = "", spec: Json | None = None, **status: Any) -> Json:
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status}


def ready(status: str = "True", reason: str = "Succeeded", message: str = "") -> list[Json]:
    return [{"type": "Ready", "status": status, "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=-3), "0s"),
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=119), "119m"),
        (timedelta(hours=2), "2h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(passed: timedelta, text: str) -> None:
    assert age(passed) == text


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_text() -> None:
    table = TextTable(("NAME", "READY", "MESSAGE"), [("production", "True", ""), ("dev", "False", "it\nwaits")])
    assert str(table).splitlines() == [
        "NAME         READY   MESSAGE",
        "production   True",
        "dev          False   it waits",
    ]


def test_a_later_line_stands_under_the_columns() -> None:
    table = TextTable(("NAME", "READY"), [("production", "True")])
    assert list(table.row_lines(("dev", "False"), table.layout(None))) == ["dev          False"]


def test_a_narrow_table_folds_messages_then_leaves_out_what_is_empty_and_then_from_the_right() -> None:
    row = ("production", "http://127.0.0.1/e/production", "1.0.0", "", "the region is away, so nothing is done here")
    table = TextTable(("NAME", "URL", "VERSION", "WAITS FOR", "MESSAGE"), [row], frozenset({"NAME"}))
    left_out = {width: table.layout(width).left_out for width in (120, 90, 75, 60, 39)}
    assert left_out == {
        120: (),
        90: ("WAITS FOR",),
        75: ("VERSION", "WAITS FOR"),
        60: ("URL", "VERSION", "WAITS FOR"),
        39: ("URL", "VERSION", "WAITS FOR"),
    }
    assert list(table.lines(table.layout(39))) == [
        "NAME         MESSAGE",
        "production   the region is away, so",
        "             nothing is done here",
    ]


def test_a_table_whose_kept_columns_do_not_fit_is_a_block_of_lines_for_each_row() -> None:
    table = TextTable(("NAME", "DECLARED AT"), [("one", "a" * 30), ("zwei", "環境" * 8)])
    assert list(table.lines(table.layout(36))) == [
        "NAME          one",
        f"DECLARED AT   {'a' * 22}",
        f"              {'a' * 8}",
        "",
        "NAME          zwei",
        "DECLARED AT   " + "環境" * 5 + "環",
        "              境" + "環境" * 2,
    ]


def test_states_are_in_colour_on_a_terminal_that_wants_colours() -> None:
    printed = {}
    for name, variables in {"plain": {"NO_COLOR": "1"}, "coloured": {"NO_COLOR": ""}}.items():
        out = Terminal()
        with mock.patch.dict("os.environ", variables | {"TERM": "xterm", "COLUMNS": "80"}), redirect_stdout(out):
            print_table(TextTable(("NAME", "READY"), [("dev", "False")]))
        printed[name] = out.getvalue()
    assert printed == {
        "plain": "NAME   READY\ndev    False\n",
        "coloured": "\x1b[1mNAME   READY\x1b[0m\ndev    \x1b[31mFalse\x1b[0m\n",
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".metadata.name", "dev"),
        (".spec.absent.deeper", None),
        ('.status.conditions[?(@.type=="Ready")].reason', "Succeeded"),
        (".status.conditions[?(@.type=='Stalled')].reason", None),
        (".metadata.labels['tenantry.dev/credential']", "user"),
    ],
)
def test_the_paths_of_printer_columns(path: str, value: str | None) -> None:
    subject = document("Environment", "dev", conditions=ready())
    subject["metadata"]["labels"] = {"tenantry.dev/credential": "user"}
    assert at(subject, path) == value


@pytest.mark.parametrize("name", ["Environment", "environment", "environments", "tenv", "TENV"])
def test_a_kind_has_four_names(name: str) -> None:
    assert find_kind(name).kind == "Environment"


def test_every_kind_has_ready_reason_message_and_age_in_its_list() -> None:
    for kind in kinds():
        titles = [title for title, _ in kind.table(wide=False)]
        assert titles[-1] == "AGE"
        if kind.has_status:
            assert {"NAME", "READY", "REASON", "MESSAGE"} <= set(titles), kind.kind
    assert {kind.kind for kind in kinds()} == {kind.KIND for kind in KINDS} | {"Namespace", "Secret"}


def test_the_wide_list_adds_columns() -> None:
    kind = find_kind("tenv")
    narrow, wide = ([title for title, _ in kind.table(each)] for each in (False, True))
    assert "REGION" in wide
    assert "REGION" not in narrow


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("enviroment", "there is no kind 'enviroment'; did you mean environment?"),
        ("tapps", "there is no kind 'tapps'; did you mean tapp?"),
    ],
)
def test_an_unknown_kind_gets_a_suggestion(given: str, sentence: str) -> None:
    with pytest.raises(Failure) as failure:
        find_kind(given)
    assert (str(failure.value), failure.value.code) == (sentence, 2)


@pytest.mark.parametrize(
    ("given", "name", "parts"),
    [
        ("tenv", "", ("Environment", "", "")),
        ("tenv", "dev", ("Environment", "", "dev")),
        ("tenv/dev", "", ("Environment", "", "dev")),
        ("tenv/acme/dev", "", ("Environment", "acme", "dev")),
        ("tenv", "acme/dev", ("Environment", "acme", "dev")),
    ],
)
def test_ways_to_name_an_object(given: str, name: str, parts: tuple[str, str, str]) -> None:
    kind, *rest = split(given, name)
    assert (kind.kind, *rest) == parts


@pytest.mark.parametrize("given", ["tenv/", "tenv/a/b/c", "tenv//dev"])
def test_what_names_no_object(given: str) -> None:
    with pytest.raises(Failure, match="write KIND/NAME"):
        split(given)


def test_a_name_in_two_namespaces_must_be_said_which() -> None:
    both = [document("Environment", "dev", "tenant-a"), document("Environment", "dev", "tenant-b")]
    with pytest.raises(Failure, match="say which with -n, as Environment/tenant-a/dev or Environment/tenant-b/dev"):
        choose(both, find_kind("tenv"), "", "dev")
    assert choose(both, find_kind("tenv"), "tenant-b", "dev") is both[1]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(Failure, match=r"there is no Environment prodution; did you mean production\?"):
        choose([document("Environment", "production", "a")], find_kind("tenv"), "", "prodution")


def test_json_is_an_array_for_a_list_and_an_object_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    one = document("Tenant", "zoë")
    print_documents([one], OutputFormat.JSON, single=False)
    assert json.loads(capsys.readouterr().out) == [one]
    print_documents([one], OutputFormat.JSON, single=True)
    out = capsys.readouterr().out
    assert json.loads(out) == one
    assert "zoë" in out


def test_yaml_has_a_document_an_object_and_name_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    both = [document("Tenant", "a"), document("Tenant", "b")]
    print_documents(both, OutputFormat.YAML, single=False)
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == both
    print_documents(both, OutputFormat.NAME, single=False)
    assert capsys.readouterr().out == "tenant/a\ntenant/b\n"


def test_a_tree_shows_what_is_in_each_environment_with_its_state() -> None:
    tenant = document("Tenant", "acme", conditions=ready())
    tenant["status"]["namespace"] = {"name": "team-acme"}
    environments = [
        document("Environment", "dev", "team-acme", conditions=ready("False", "RegionMissing", "no region eu")),
        document("Environment", "prod", "team-acme", url="http://x/e/acme/prod", conditions=ready()),
        document("Environment", "dev", "tenant-other", conditions=ready()),
    ]
    inside = [
        document(
            "App", "prod.crm", "team-acme", {"environment": "prod", "app": "crm"}, installedVersion="1.1.0", conditions=ready()
        ),
        document("Identity", "i1", "team-acme", {"environment": "prod", "username": "ada"}),
        document("App", "dev.crm", "tenant-other", {"environment": "dev", "app": "crm"}),
    ]
    assert list(branch(tenant, environments, inside)) == [
        "tenant acme  Ready",
        "├── environment dev  RegionMissing: no region eu",
        "└── environment prod  Ready  http://x/e/acme/prod",
        "    ├── app crm 1.1.0  Ready",
        "    └── identity ada  Pending",
    ]


def test_an_object_that_goes_is_said_to_be_deleting() -> None:
    leaving = document("Tenant", "acme", conditions=ready())
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert state_of(leaving) == "Deleting"


def test_a_description_tells_what_blocks_a_deletion_and_hides_no_condition() -> None:
    since = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    subject = document(
        "Tenant",
        "acme",
        spec={"displayName": "Acme"},
        conditions=[{**ready("False", "Blocked", "an environment is left")[0], "lastTransitionTime": since}],
        deletion={"blockers": [{"object": "Environment/dev", "reason": "Protected", "since": since, "resolve": "unprotect it"}]},
    )
    text = described(find_kind("tenant"), subject, [])
    assert "displayName: Acme" in text
    assert "Ready   False    Blocked   5m      an environment is left" in text
    assert "Environment/dev   Protected   5m      unprotect it" in text


def test_a_description_never_shows_a_secret() -> None:
    secret = document("Secret", "s", "acme") | {"data": {"password": "aHVudGVyMg=="}}
    text = described(find_kind("secret"), secret, [])
    assert "password: (hidden)" in text
    assert "aHVudGVyMg" not in text


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("app/tenant-americas/staging.music-store", 28, ["app/tenant-americas/staging.", "music-store"]),
        ("waits for app/tenant-americas/staging.music-store", 24, ["waits for", "app/tenant-americas/", "staging.music-store"]),
        ("one two three", 8, ["one two", "three"]),
        ("0123456789abcdef", 10, ["0123456789", "abcdef"]),
        ("a.b", 10, ["a.b"]),
    ],
)
def test_a_name_that_is_too_long_for_its_column_breaks_after_a_separator(text: str, width: int, lines: list[str]) -> None:
    table = TextTable(("TARGET",), [(text,)])
    assert list(table.row_lines((text,), Layout(width, {"TARGET": width}))) == lines
