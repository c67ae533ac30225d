"""Settings as a command sees them: the environment, and over it its options."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.settings import Settings, problems_of


def load(**given: Any) -> Settings:
    """The settings. Raises Failure naming each that is refused."""
    try:
        return Settings(**given)
    except ValidationError as error:
        raise Failure("\n".join(problems_of(error)), BAD_INPUT) from error
