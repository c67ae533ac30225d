"""Differences of an engine, and its restart for another release of the platform. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import EngineFacts, EngineSpec
from tenantry.model.resource import TURN


@dataclass(frozen=True)
class Upgrade:
    """version: what its engine waits for, `""` where it waits for nothing; due: it is its turn."""

    version: str = ""
    due: bool = False


def upgrade_of(environment: Environment, engine: EngineFacts | None) -> Upgrade:
    """Return the upgrade for which the engine waits. An engine under driftPolicy Warn waits for none; one that sleeps has no pod
    to restart, so it is its turn."""
    if engine is None or not engine.next or environment.spec.drift_policy == "Warn":
        return Upgrade()
    return Upgrade(engine.next, engine.asleep != "" or environment.metadata.annotations.get(TURN) == engine.next)


def keeps_pod(upgrade: Upgrade, engine: EngineFacts | None, wanted: EngineSpec) -> bool:
    """Return True if only corrections without a restart are made. A new declaration does not wait for a turn."""
    declared_anew = engine is None or engine.spec not in (None, wanted)
    return upgrade.version != "" and not upgrade.due and not declared_anew


def engine_differences(engine: EngineFacts | None, wanted: EngineSpec) -> tuple[str, ...]:
    """Return the differences between the engine and the declaration, including another release, as phrases."""
    if engine is None:
        return ()
    if engine.spec == wanted:
        return (f"its pod is not that of version {engine.next}",) if engine.next else ()
    if engine.spec is None:
        return engine.altered or ("what the engine is made of was changed",)
    held, declared = vars(engine.spec), vars(wanted)
    return tuple(
        f"{name} is {held[name] or 'the default'}, declared is {declared[name] or 'the default'}"
        for name in declared
        if held[name] != declared[name]
    )


def other_limits(engine: EngineFacts | None, wanted: EngineSpec) -> bool:
    """Return True if the engine has other limits than it is to have: no driftPolicy of the tenant leaves those in place."""
    return engine is not None and engine.spec is not None and engine.spec.limits != wanted.limits
