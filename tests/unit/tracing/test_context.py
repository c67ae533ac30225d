"""The form of W3C Trace Context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.tracing.context import TraceContext, trace_id_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", True),
    ],
)
def test_a_traceparent_is_read(text: str, sampled: bool) -> None:
    assert TraceContext.parse(text) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 600}",
    ],
)
def test_another_text_is_no_traceparent(text: str) -> None:
    assert TraceContext.parse(text) is None
    assert trace_id_of(text) == ""


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = TraceContext.parse(text)
    assert found is None or TraceContext.parse(str(found)) == found
