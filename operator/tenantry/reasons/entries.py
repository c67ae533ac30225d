"""The explanation of a reason, and the address of its page in the documentation of a running platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PAGE = "/docs/reasons/"
"""The path of the page with all reasons, below the address of a platform or an engine."""


class Explanation(NamedTuple):
    """meaning: one sentence about the cause; action: one about what a person does, without a full stop."""

    meaning: str
    action: str


Explanations = Mapping[str, Explanation]


def address_of(reason: str) -> str:
    """Return the path and anchor of a reason, such as `/docs/reasons/#datamissing`."""
    return f"{PAGE}#{reason.lower()}"


def address_of_status(status: int) -> str:
    """Return the path and anchor of an HTTP status, such as `/docs/reasons/#http-404`."""
    return f"{PAGE}#http-{status}"
