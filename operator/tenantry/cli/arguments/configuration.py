"""Settings as a command sees them: the environment, and over it its options."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.settings import Settings, problems_of, variable, variables

OPTIONS = {"listen": "--listen", "metrics": "--metrics-listen", "public_url": "--public-url", "state": "--state"}
"""The options that give a setting."""


def load(**given: Any) -> Settings:
    """The settings. Raises Failure naming each that is refused, by its option if it was given by one."""
    try:
        return Settings(**given)
    except SettingsError as error:
        groups = [variable(name) for name in Settings.model_fields if f'"{name}"' in str(error)]
        raise Failure(f"{groups[0]}: is a group of settings; set one of them, such as {_first(groups[0])}", BAD_INPUT) from error
    except ValidationError as error:
        raise Failure("\n".join(problems_of(error, {name: OPTIONS[name] for name in given})), BAD_INPUT) from error


def _first(group: str) -> str:
    """The first variable of a group of settings."""
    return next(name for name in variables() if name.startswith(group))
