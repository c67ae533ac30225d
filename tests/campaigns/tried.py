"""The fixture by which a test reports how many attempts it made: the campaign's table shows what was counted."""

from __future__ import annotations

import pytest

PROPERTY = "tried"


class Tried:
    """Counts the attempts of one test. They stand in its report, also when it fails half-way."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties
        self.count = 0

    def __call__(self, attempts: int = 1) -> None:
        """Count attempts that were made and checked."""
        self.count += attempts
        self._properties[:] = [each for each in self._properties if each[0] != PROPERTY]
        self._properties.append((PROPERTY, self.count))


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """Counts this test's attempts."""
    return Tried(request.node.user_properties)
