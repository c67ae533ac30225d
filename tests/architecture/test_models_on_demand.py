"""The validators of models: made when a model is first used. A process starts with models that it may never use."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from pydantic import BaseModel

import tenantry
from tenantry import settings

AT_ONCE = {settings.__name__: "every process reads its settings at its start"}
"""Modules whose models are made when they are imported, and why."""
LEFT = ("tenantry.adapters.traces", "tenantry.cli.main")
"""Modules that need an extra, or run a program."""


def test_models_are_built_when_they_are_first_used() -> None:
    for found in pkgutil.walk_packages(tenantry.__path__, "tenantry."):
        if not found.name.startswith(LEFT):
            importlib.import_module(found.name)
    ours = [each for each in _below(BaseModel) if each.__module__.startswith("tenantry.") and "[" not in each.__name__]
    models = [each for each in ours if each.__module__ not in AT_ONCE]
    assert len(models) > 100
    assert [f"{each.__module__}.{each.__name__}" for each in models if not each.model_config.get("defer_build")] == []


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)
