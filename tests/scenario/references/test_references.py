"""Each reference, its target deleted and made again: by another customer, and within one tenant; tried on every host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.releases import helm, kubectl, own, release
from tests.scenario.either_host import HOSTS, running
from tests.scenario.hosts import Host, object_
from tests.scenario.references.reference_story import SLUG, Outside, Story, outside
from tests.scenario.references.references import MADE_AGAIN, TRIED

__all__ = ["helm", "kubectl", "own", "release"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with outside(tmp_path_factory.mktemp("outside")) as made:
        yield made


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, world: Outside) -> Iterator[Host]:
    yield from running(request, tmp_path_factory.mktemp("host"), **world.settings)


@pytest.fixture(scope="module")
def story(host: Host, world: Outside) -> Story:
    """A tenant in which each reference was made; then another customer's of the same name and slug, with the same things."""
    host.apply(object_("Region", "", "here"), object_("Region", "", "closed", tenants=[SLUG]))
    story = Story(host, world)
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


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_what_is_made_again_within_a_tenant_is_as_the_table_says(story: Story, name: str) -> None:
    again = MADE_AGAIN[name].again
    assert again is not None
    again(story)
