"""Programs that tests need and a machine may lack."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Skip the test, or fail it in CI, where every program is installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}; with CI=true it must be there", pytrace=False)
    pytest.skip(f"NOT RUN: {what}")
