"""How an engine differs from what it is to be, and when it restarts for another release of the platform. Pure."""

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
    """What the engine waits for. One that is left as it is, by driftPolicy Warn, waits for nothing."""
    if engine is None or not engine.next or environment.spec.drift_policy == "Warn":
        return Upgrade()
    return Upgrade(engine.next, environment.metadata.annotations.get(TURN) == engine.next)


def keeps_pod(upgrade: Upgrade, engine: EngineFacts | None, wanted: EngineSpec) -> bool:
    """Is only that put right which needs no restart? What was declared anew is not held up by anybody's turn."""
    declared_anew = engine is None or engine.spec not in (None, wanted)
    return upgrade.version != "" and not upgrade.due and not declared_anew


def engine_differences(engine: EngineFacts | None, wanted: EngineSpec) -> tuple[str, ...]:
    """How the engine differs from the declared one, another release included, as phrases."""
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
