"""The move of an engine to another place, one step at a time. Pure.

Until the engine is let go it is written where it was. After that it is written in its new place only. Each step looks at what the
two places hold, so an interrupted move goes on where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tenantry.kinds.environment.placement import Placed, RegionPlacement
from tenantry.kinds.environment.spec import Environment, EnvironmentStatus, MoveStatus
from tenantry.model.changes import MoveEngine
from tenantry.model.facts import EngineFacts, EngineSpec, MoveStep
from tenantry.model.resource import RESTORING, Ref
from tenantry.model.verdicts import Waiting

ACTION = "MOVE_ENVIRONMENT"


@dataclass(frozen=True)
class Move:
    """The next thing in a move. begun: where it goes from and to; step: the change of the kind `Step`.

    `Record`: the status is to show the move before it is felt, or before it leaves anything behind. `Wait`: its pod does not run
    yet. `Cancel`: another place is declared. `Arrived`: the engine runs in its new place, and the status is to say so. `Ended`:
    nothing is left of it.
    """

    kind: Literal["Step", "Record", "Wait", "Cancel", "Arrived", "Ended"]
    begun: MoveStatus
    message: str = ""
    step: MoveStep = "Reserve"

    @property
    def verdict(self) -> Waiting:
        return Waiting("Moving", self.message, expected=True)

    def verdict_at(self, now: datetime) -> Waiting:
        """The verdict of a pass that is followed by another one at once."""
        return Waiting("Moving", self.message, until=now, expected=True)


def looks_at(environment: Environment, place: Placed) -> str | None:
    """Return the other place of a move: a pool, `""` for a pod of its own; None where nothing moves."""
    move = environment.status.move
    if move is not None:
        return (move.from_pool if move.step == "Removing" else move.to_pool) or ""
    return place.moves_to


def move_of(
    environment: Environment,
    engine: EngineFacts | None,
    there: EngineFacts | None,
    place: Placed,
    region: RegionPlacement,
    now: datetime,
) -> Move | None:
    """Return what the move of an environment's engine needs now, None where nothing moves."""
    move = environment.status.move
    if move is not None and move.step == "Removing":
        return _removing(engine, there, move, region)
    if engine is None or engine.missing:
        return None
    begun = move or MoveStatus(from_pool=engine.pool or None, to_pool=place.moves_to or None, started_at=now)
    told = f"its engine moves {_way(begun, region)}"
    if move is not None and there is not None and not there.coming and there.status != "DELETING":
        return Move("Arrived", move.model_copy(update={"step": "Removing"}), told)
    if move is not None and (move.to_pool or "") != place.moves_to:
        return Move("Cancel", move, f"{told}: this is given up, because another place is declared")
    if place.moves_to is None or engine.status != "RUNNING" or not _may_begin(environment):
        return None
    if move is None and (not begun.to_pool or begun.to_pool in region.servers):
        return Move("Record", begun, told)  # a pod or a database is made, and only the record says where
    made = there if begun.to_pool or not _is_half_made(there) else None
    if made is not None and not begun.to_pool and made.status != "RUNNING":
        why = f": {made.message}" if made.message else ""
        return Move("Wait", begun, f"{told}: it serves where it is until its new pod runs{why}")
    if made is None or made.coming == "Reserved":
        return Move("Step", begun, f"{told}: its data is copied, and it serves", "Prepare" if made is not None else "Reserve")
    return Move("Record", begun, told) if move is None else Move("Step", move, f"{told}: it is read-only for seconds", "Switch")


def move_change(step: MoveStep, spec: EngineSpec, move: MoveStatus, secret: Ref, region: RegionPlacement) -> MoveEngine:
    """Return the change of a step. spec: of the engine in its new place."""
    return MoveEngine(step, spec, move.from_pool or "", secret, _way(move, region))


def with_move(status: EnvironmentStatus, move: MoveStatus | None) -> EnvironmentStatus:
    """Return the status with that move."""
    return status.model_copy(update={"move": move})


def _removing(engine: EngineFacts | None, there: EngineFacts | None, move: MoveStatus, region: RegionPlacement) -> Move | None:
    if there is None or there.status == "DELETING":
        return Move("Ended", move)
    if engine is None or engine.status != "RUNNING":
        return None  # its old place stays until the new one serves
    return Move("Step", move, f"its engine moved {_way(move, region)}: its old place is removed", "Leave")


def _is_half_made(pod: EngineFacts | None) -> bool:
    """Return True if not all objects of a new pod are as they are to be: who made them was killed, or somebody changed one."""
    return pod is not None and pod.spec is None and pod.status != "DELETING"


def _may_begin(environment: Environment) -> bool:
    """Return True if no restore is under way."""
    return environment.status.phase == "READY" and RESTORING not in environment.metadata.annotations


def _way(move: MoveStatus, region: RegionPlacement) -> str:
    return f"from {region.name_of(move.from_pool or '')} to {region.name_of(move.to_pool or '')}"
