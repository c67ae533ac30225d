"""Plans of frequent requests, the last used ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

P = TypeVar("P")
MOST_PLANS = 512
"""Plans that are kept. Each takes about 3 KiB."""


class KeptPlans(Generic[P]):
    """Used by the event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, P] = OrderedDict()

    def of(self, about: Hashable, make: Callable[[], P]) -> P:
        """Return the plan for that, which is made where it is not kept. Raises what `make` raises."""
        plan = self._kept.get(about)
        if plan is None:
            plan = self._kept[about] = make()
            if len(self._kept) > MOST_PLANS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(about)
        return plan
