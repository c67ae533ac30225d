"""Each reference x {its target is deleted, and made again by another customer}, tried on every host."""

from __future__ import annotations

import pytest

from tests.cluster.releases import helm, kubectl, own, release
from tests.scenario.either_host import host
from tests.scenario.hosts import Host, object_
from tests.scenario.references import SLUG, TRIED, Story

__all__ = ["helm", "host", "kubectl", "own", "release"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story(host: Host) -> Story:
    """A tenant in which each reference was made; then another customer's of the same name and slug, with the same things."""
    host.apply(object_("Region", "", "here"), object_("Region", "", "closed", tenants=[SLUG]))
    story = Story(host)
    story.begin("isolde")
    for name, reference in TRIED.items():
        story.kept[name] = reference.before(story) if reference.before is not None else None
    story.end()
    story.begin("isadora")
    return story


@pytest.mark.parametrize("name", TRIED)
def test_nothing_of_the_first_customer_reaches_the_second(story: Story, name: str) -> None:
    after = TRIED[name].after
    assert after is not None
    after(story, story.kept[name])
