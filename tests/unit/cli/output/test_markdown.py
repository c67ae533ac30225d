"""A plan as a comment on a pull request: what matters first, and no text of others that does anything."""

from __future__ import annotations

import html
import re

import pytest

from tenantry.cli.output.markdown import LARGEST, MARK, code, comment
from tenantry.hosts.console.protocol import KeptReport, PlanReport
from tenantry.runtime.planning.planned import Step

HOSTILE = [
    "a | b",
    "`code`",
    "</code><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://tracker.example/pixel.png)",
    "[click](https://evil.example)",
    "@everyone #1 !2",
    "line\nbreak\r\n| --- |",
    "**bold** _it_ ~~no~~",
    "<!-- hidden -->",
    "\u202eevil\u2066",
    "```\nfence",
    "\\| &amp; &#124;",
    "a\u2028b",
]


def report(*steps: Step, **more: object) -> PlanReport:
    return PlanReport(tuple(map(str, steps)), digest="d" * 64, steps=steps, **{"verdicts": (), **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_one_word_of_code(text: str) -> None:
    shown = code(text)
    inner = shown.removeprefix("<code>").removesuffix("</code>")
    assert re.fullmatch(r"(?:[\w ./:,-]|&#\d+;)*", inner)
    read = html.unescape(inner)
    assert read == "".join(char if char.isprintable() or char == " " else f"\\u{ord(char):04x}" for char in text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_in_its_cell_wherever_it_stands(text: str) -> None:
    told = comment(
        report(
            Step("~", text, text),
            Step("-/+", text, text),
            verdicts=((text, text, text),),
            problems=(text,),
            kept=(KeptReport(text, text, True),),
        ),
        "1 to change",
    )
    for line in told.splitlines():
        assert "<code>" in line or not re.search(
            r"[`\[\]@]|<(?!/?(?:details|summary)\b|!-- tenantry-plan)", line.replace("[!CAUTION]", "").replace("[!WARNING]", "")
        )
        if line.startswith("| ") and "<code>" in line:
            assert line.count("|") in (3, 4)


def test_data_loss_comes_before_everything_else() -> None:
    told = comment(
        report(Step("~", "App/a"), Step("-/+", "a", "drops column fax (3 rows)"), Step("", "a", "upload")), "1 to change"
    )
    lines = told.splitlines()
    assert lines[0] == MARK
    assert lines[3:6] == [
        "> [!CAUTION]",
        "> **Data will be lost:**",
        "> - <code>a</code>: <code>drops column fax &#40;3 rows&#41;</code>",
    ]
    assert "<details><summary>Effects in environments: 2</summary>" in lines


def test_a_plan_without_changes_is_short() -> None:
    assert comment(report(), "no changes").splitlines()[1:] == [
        "### Tenantry: no changes",
        "",
        f"Digest: <code>{'d' * 64}</code>",
    ]


@pytest.mark.slow
def test_a_huge_plan_fits_and_says_what_it_leaves_out() -> None:
    told = comment(report(*(Step("+", f"App/tenant-acme/app-{n}", "|" * 200) for n in range(5_000))), "5000 to create")
    assert len(told) < LARGEST + 2_000
    assert re.search(r"… and \d+ more; the check's log shows all", told)
