"""The table of the cost of an environment: its parts are measured, at a tiny size, and its lines say what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import cost, pooled
from tests.bench.cluster.pooled import Added, told
from tests.bench.row import Scale

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("rows_at", ["volume", "server"])
def test_a_pool_is_weighed_with_and_without_its_engines(rows_at: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("pool_server") if rows_at == "server" else None
    found = pooled.weigh(tmp_path / "pool", 2, server)
    assert found.empty > 10 << 20
    assert found.open > 0
    assert found.made_cpu >= 0
    assert found.opened_cpu > 0


@pytest.mark.slow
def test_environments_in_one_process_are_weighed_by_the_difference_of_two_sizes(tmp_path: Path) -> None:
    line = cost.embedded(Scale(tmp_path, share=0.02))
    assert (line.placement, line.writes) == ("embedded, with its objects", "0")
    assert line.memory.endswith("iB")


def test_the_table_shows_a_line_for_each_placement() -> None:
    lines = [cost.Cost("here", "1 KiB", "1 ms", "5.0", "2.0"), cost.Cost("there", "8 MiB of disk", "-")]
    assert cost.table(iter(lines)).splitlines()[2:] == [
        "| here | 1 KiB | 1 ms | 5.0 | 2.0 |",
        "| there | 8 MiB of disk | - | - | - |",
    ]


@pytest.mark.parametrize(
    ("size", "shown"), [(-512, "< 16 KiB"), (300 << 10, "300 KiB"), (3 << 19, "1.50 MiB"), (75 << 20, "75 MiB")], ids=str
)
def test_a_size_has_the_places_that_matter(size: int, shown: str) -> None:
    assert cost.size_text(size) == shown


def test_writes_are_the_sum_of_their_parts_and_the_largest_come_first() -> None:
    added = Added({"POST environments": 1.0, "PUT environments/status": 2.0, "POST secrets": 0.02}, {"Secret": 1.0})
    assert (added.all_writes, added.all_objects) == (3.02, 1.0)
    assert told(added.writes) == "PUT environments/status 2.0, POST environments 1.0"


def table_of_the_page() -> dict[str, list[str]]:
    """The cells of the table in docs/benchmarks.md, by placement."""
    _, _, after = (ROOT / "docs" / "benchmarks.md").read_text().partition(f"| {' | '.join(cost.TITLES)} |\n")
    lines = after.partition("\n\n")[0].splitlines()[1:]
    return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}


def test_the_page_has_the_placements_that_the_target_prints() -> None:
    printed = Path(cost.__file__).read_text()
    assert {placement for placement in table_of_the_page() if f'"{placement}"' not in printed} == set()
    assert "\ncost:" in (ROOT / "Makefile").read_text()


def test_the_readme_says_what_the_table_says() -> None:
    table, readme = table_of_the_page(), " ".join((ROOT / "README.md").read_text().split())
    own, shared = table["in a pod of its own"], table["in a pool on a volume, open"]
    assert f"{own[0]} and {float(own[2]):.0f} API writes in a pod of its own" in readme
    kib = int(shared[0].removesuffix(" KiB"))
    assert f"in a pool {kib / 1024:.1f} MiB while it is open and {float(shared[2]):.0f} writes" in readme
