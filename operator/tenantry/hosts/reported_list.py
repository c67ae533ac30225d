"""The objects of a list that a watch has reported: others may have gone without an event. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tenantry.runtime.cache import Name


class ReportedList:
    """The names of a kind that a watch has reported since it listed. last: when the list's latest event came, in seconds.

    A watch reports the objects of its list, never those that are no longer in it: what is held and was not reported may be gone.
    """

    def __init__(self, last: float) -> None:
        self.last = last
        self.unsure = False
        """True where the events prove nothing: the kind is to be listed, or was listed twice."""
        self._reported: set[Name] = set()

    def report(self, name: Name, at: float, *, listed: bool) -> None:
        """Take an event of an object. listed: whether it stands for an object of a list, rather than for a change."""
        if listed:
            # What the first list reported may be gone from the second.
            self.unsure = self.unsure or name in self._reported
            self.last = max(self.last, at)
        self._reported.add(name)

    def lacks(self, held: Iterable[Name]) -> bool:
        """Return True if an object that is held may be gone."""
        return self.unsure or any(name not in self._reported for name in held)
