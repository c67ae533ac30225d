"""The shards of each replica of the operator: equal numbers, and as few moves as that allows."""

from __future__ import annotations

from collections.abc import Mapping


def assigned(count: int, held: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Return the shards of each replica. held: what each has now, disjoint.

    The numbers differ by at most one. A shard leaves a replica only if that has more than its number. Every replica computes
    this by itself, from the same `held` the same result; they come to an end in whichever order they give up and take.
    """
    if not held:
        return {}
    base, more = divmod(count, len(held))
    ranked = sorted(held, key=lambda name: (-len(held[name]), name))
    numbers = {name: base + (place < more) for place, name in enumerate(ranked)}
    kept = {name: sorted(shard for shard in held[name] if shard < count)[: numbers[name]] for name in ranked}
    free = sorted(set(range(count)).difference(*kept.values()))
    for name in ranked:
        room = numbers[name] - len(kept[name])
        kept[name] += free[:room]
        free = free[room:]
    return {name: frozenset(shards) for name, shards in kept.items()}
