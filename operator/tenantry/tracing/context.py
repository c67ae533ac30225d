"""The place of some work in a distributed trace, as the header `traceparent` of W3C Trace Context writes it."""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class TraceContext(NamedTuple):
    """A span's trace and id, in lower-case hexadecimal digits: 32 and 16. sampled: the trace is recorded."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @classmethod
    def parse(cls, text: str) -> TraceContext | None:
        """Return the context of a `traceparent`, None for any other text. A later version of the form is read as this one."""
        found = _FORM.fullmatch(text) if len(text) <= 512 else None
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def trace_id_of(traceparent: str) -> str:
    """Return the trace id of a `traceparent`; `""` for any other text."""
    context = TraceContext.parse(traceparent)
    return context.trace_id if context is not None else ""
