"""Sleep of a dedicated engine: when it falls asleep, and what wakes it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tenantry.kinds.environment.spec import Environment, Hibernation, SleepTime
from tenantry.model.decision import Warned
from tenantry.model.facts import EngineFacts
from tenantry.model.resource import RECONCILE_REQUESTED, WAKE_REQUESTED, Resource, format_time, parse_duration, parse_time
from tenantry.model.verdicts import Ready, Stalled, Verdict, Waiting

LOOKS_AGAIN = timedelta(seconds=10)
"""The pause before an engine that is to fall asleep is looked at again."""
ASKS_AGAIN = timedelta(minutes=1)
"""The pause before an engine is asked again that did not say for how long nobody used it."""
STAYS_AWAKE = timedelta(minutes=5)
"""The time for which an engine that was woken runs at least."""
UNUSED_AT_NIGHT = timedelta(minutes=15)
"""An engine that was woken within its time of sleep falls asleep again once nobody has used it for so long."""
_HORIZON = 8
"""Days before and after today in which times of sleep are looked for: each comes at least once a week."""
ENGINE_SLEEPING = "EngineSleeping"


@dataclass(frozen=True)
class Use:
    """unused: for how long nobody used the engine, None if it did not say. needs: what needs it to run, `""` for nothing."""

    unused: timedelta | None = None
    needs: str = ""


UNKNOWN = Use()


class Sleep(NamedTuple):
    """since: since when the engine sleeps, `""` for one that is to run. until: when to decide again, None for no time.

    woken: when an engine that runs was woken last, None if it never was.
    """

    since: str = ""
    until: datetime | None = None
    woken: datetime | None = None


AWAKE = Sleep()


class Interval(NamedTuple):
    """From the first moment to before the second one."""

    start: datetime
    end: datetime


def sleep_of(environment: Environment, engine: EngineFacts | None, use: Use, now: datetime, *, settled: bool) -> Sleep:
    """Decide whether the engine sleeps. settled: nothing else is to be changed about it."""
    declared = environment.spec.hibernation
    if declared is None or engine is None:
        return AWAKE
    if engine.asleep:
        return _asleep(environment, declared, engine.asleep, use, now)
    if engine.status != "RUNNING":
        return AWAKE
    woken = woken_at(environment, now)
    if use.needs:
        return Sleep("", now + ASKS_AGAIN, woken)
    due = _due(declared, woken, use.unused, now)
    if due <= now and settled:
        return Sleep(format_time(now))
    return Sleep("", max(due, now + LOOKS_AGAIN), woken)


def _asleep(environment: Environment, declared: Hibernation, since: str, use: Use, now: datetime) -> Sleep:
    """It sleeps on until something needs it, somebody wakes it, or a time of sleep has ended since it fell asleep."""
    times = intervals(declared.schedule or (), now)
    inside = _around(times, now) is not None
    ended = any(parse_time(since) < each.end <= now for each in times)
    if use.needs or wake_request(environment) or (ended and not inside):
        return AWAKE
    return Sleep(since, min((each.end for each in times if each.end > now), default=None))


def _due(declared: Hibernation, woken: datetime | None, unused: timedelta | None, now: datetime) -> datetime:
    """Return when the engine may fall asleep if nobody uses it until then."""
    candidates = []
    if declared.after is not None:
        candidates.append(_unused_for(parse_duration(declared.after), unused, now))
    times = intervals(declared.schedule or (), now)
    around = _around(times, now)
    if around is not None and woken is not None and woken >= around.start:
        candidates.append(_unused_for(UNUSED_AT_NIGHT, unused, now))
    elif around is not None:
        candidates.append(around.start)
    candidates += [each.start for each in times if each.start > now]
    return max(min(candidates), woken + STAYS_AWAKE) if woken is not None else min(candidates)


def _unused_for(limit: timedelta, unused: timedelta | None, now: datetime) -> datetime:
    return now + (ASKS_AGAIN if unused is None else limit - unused)


def sleep_action(environment: Environment, engine: EngineFacts | None, sleep: Sleep) -> tuple[str, str] | None:
    """Return the action and the request of an engine that falls asleep or wakes now, else None."""
    asleep = engine.asleep if engine is not None else ""
    if asleep and not sleep.since:
        return "WAKE_ENVIRONMENT", wake_request(environment) or f"wake-{asleep}"
    if asleep or not sleep.since:
        return None
    # The same after a pass that was killed before it deployed: it fell asleep at another time.
    before = environment.status.engine
    woken = f"-{format_time(before.woken_at)}" if before is not None and before.woken_at is not None else ""
    return "HIBERNATE_ENVIRONMENT", f"hibernate-{environment.metadata.generation}{woken}"


def wake_request(environment: Environment) -> str:
    """Return the request to wake the engine that no pass has answered yet, `""` for none."""
    asked = environment.metadata.annotations.get(WAKE_REQUESTED, "")
    return "" if asked == (environment.status.last_handled_wake_at or "") else asked


def woken_at(environment: Environment, now: datetime) -> datetime | None:
    """Return when an engine that runs was woken last; now if the status does not show yet that it was."""
    engine = environment.status.engine
    if wake_request(environment) or (engine is not None and engine.sleeping_since is not None):
        return now
    return engine.woken_at if engine is not None else None


def still_asleep(environment: Environment, engine: EngineFacts) -> datetime | None:
    """Return since when an engine slept that is being woken: until it runs, nobody can use it."""
    before = environment.status.engine
    return before.sleeping_since if before is not None and engine.status != "RUNNING" else None


def intervals(schedule: Sequence[SleepTime], now: datetime) -> tuple[Interval, ...]:
    """Return the times of sleep around now, in order; those that touch are one."""
    found: list[Interval] = []
    for each in sorted(one for entry in schedule for one in _of(entry, now)):
        if found and each.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return tuple(found)


def _of(entry: SleepTime, now: datetime) -> list[Interval]:
    zone = ZoneInfo(entry.time_zone)
    start, end = (time.fromisoformat(text) for text in (entry.start, entry.end))
    today, found = now.astimezone(zone).date(), []
    for day in (today + timedelta(days=number) for number in range(-_HORIZON, _HORIZON + 1)):
        if entry.days is None or day.strftime("%a") in entry.days:
            until = day if end > start else day + timedelta(days=1)
            # In one zone for all: the order of two times of one zone ignores that a clock was put back.
            moments = (datetime.combine(on, at, zone).astimezone(now.tzinfo) for on, at in ((day, start), (until, end)))
            found.append(Interval(*moments))
    return found


def _around(times: Sequence[Interval], now: datetime) -> Interval | None:
    return next((each for each in times if each.start <= now < each.end), None)


def schedule_refusal(environment: Environment) -> Stalled | None:
    """Return the refusal of a time zone that nobody knows, or None."""
    declared = environment.spec.hibernation
    for number, entry in enumerate((declared.schedule if declared else None) or ()):
        try:
            ZoneInfo(entry.time_zone)
        except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError; a folder of the database an OSError
            told = f"spec.hibernation.schedule[{number}].timeZone: no time zone {entry.time_zone!r}"
            return Stalled("TimeZoneUnknown", f"{told}; write a name such as Europe/Berlin")
    return None


def hibernation_warning(environment: Environment, place: str, *, remote: bool = False) -> Warned | None:
    """Say that an engine does not sleep or wake as it is declared. place: where it runs, `""` for a pod of its own. remote: in
    another cluster."""
    if environment.spec.hibernation is not None and place:
        return Warned("HibernationNotUsed", f"spec.hibernation: {place}; leave the field out")
    if environment.wakes_on_request and remote:
        why = "the engine is in another cluster, where requests do not reach the api; declare Manual"
        return Warned("HibernationNotUsed", f"spec.hibernation.wake: {why}")
    return None


def asleep_verdict(environment: Environment, until: datetime | None, *, remote: bool = False) -> Ready:
    """Return the verdict on an environment whose engine sleeps. until: when to decide again."""
    command = f"`tenantry wake {environment.metadata.namespace}/{environment.metadata.name}`"
    way = f"a request to its URL or {command}" if environment.wakes_on_request and not remote else command
    return Ready("Sleeping", f"its engine sleeps; {way} wakes it", until)


def waits_for_engine(resource: Resource[Any, Any]) -> bool:
    """Return True if the object waits for its engine to wake, or no pass has seen it yet as it is declared."""
    told = resource.status.condition("Ready")
    unseen = resource.status.observed_generation != resource.metadata.generation
    return not resource.suspended and (unseen or (told is not None and told.reason == ENGINE_SLEEPING))


def while_asleep(resource: Resource[Any, Any], since: str, *, wants: bool, holds: bool = True) -> Verdict:
    """Return the verdict on an object in an engine that sleeps since that time.

    wants: its change needs the engine. holds: what somebody must act on stays so until the object is edited.
    """
    status, metadata = resource.status, resource.metadata
    current = status.observed_generation == metadata.generation
    asked = metadata.annotations.get(RECONCILE_REQUESTED) != status.last_handled_reconcile_at
    stalled = status.condition("Stalled")
    if stalled is not None and holds and current and not asked and not resource.deleting:
        return Stalled(stalled.reason, stalled.message)
    if resource.deleting or wants or not resource.ready:
        return Waiting("EngineSleeping", f"its engine sleeps since {since}, and is woken for this", expected=True)
    return Ready("NotLookedAt", f"as it was at {since}: its engine sleeps since then")
