"""A tier imports the modules that may have tests of it, and no test of it is lost."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.support import collecting
from tests.support.collecting import MARKED, may_hold, mentioned, pytest_collection

SLOW = "slow and not campaign and not compared and not cluster and not node"
CLUSTER = "cluster and not processes"
HELPER = "import pytest\nPLACES = ['here', pytest.param('there', marks=pytest.mark.slow)]\n"


@pytest.mark.parametrize(
    ("text", "fast", "slow", "cluster"),
    {
        "no mark at all": ("def test_a(): ...", True, False, False),
        "a mark of one test": ("@pytest.mark.slow\ndef test_a(): ...", True, True, False),
        "a mark of one row": ("ROWS = [1, pytest.param(2, marks=pytest.mark.cluster)]", True, False, True),
        "a mark of all tests": ("pytestmark = pytest.mark.slow", False, True, False),
        "marks that exclude": ("pytestmark = [pytest.mark.slow, pytest.mark.cluster]", False, False, True),
        "a mark that excludes some": ("pytestmark = pytest.mark.slow\nFEW = pytest.mark.cluster", False, True, True),
        "a mark with a reason": ("pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group('a')]", True, False, True),
        "a mark under a condition": ("pytestmark = pytest.mark.cluster if HERE else pytest.mark.slow", True, True, True),
        "marks on several lines": ("pytestmark = [\n    pytest.mark.cluster,\n    pytest.mark.slow,\n]", True, True, True),
        "marks that exclude in both": ("pytestmark = [pytest.mark.slow, pytest.mark.campaign]", False, False, False),
        "a mark of a helper": ("from tests.helping import PLACES", True, True, False),
        "a mark of a helper, taken on several lines": ("from tests.helping import (\n    PLACES,\n)", True, True, False),
        "a mark of a helper, by its module": ("from tests import helping", True, True, False),
        "a mark of a helper's helper": ("from tests.far import PLACES", True, True, False),
        "a mark of a helper after another": ("from tests.near import A\nfrom tests.helping import PLACES", True, True, False),
    }.values(),
)
def test_a_module_is_excluded_only_if_its_text_leaves_no_doubt(
    text: str, fast: bool, slow: bool, cluster: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helping.py").write_text(HELPER)
    (tmp_path / "tests" / "far.py").write_text("from tests.helping import PLACES\n")
    (tmp_path / "tests" / "near.py").write_text("A = 1\n")
    module = tmp_path / "tests" / "test_it.py"
    module.write_text(f"import pytest\n{text}\n")

    assert (may_hold(module, "not slow"), may_hold(module, SLOW), may_hold(module, CLUSTER)) == (fast, slow, cluster)


@pytest.mark.parametrize(
    "tier",
    [
        "test",
        pytest.param("slow", marks=pytest.mark.slow),
        pytest.param("cluster", marks=[pytest.mark.slow, pytest.mark.cluster]),
    ],
)
def test_the_marks_of_tests_are_among_those_that_their_modules_mention(tier: str, pytestconfig: pytest.Config) -> None:
    """Each tier sees the modules that it collects."""
    registered = {line.partition(":")[0].strip() for line in pytestconfig.getini("markers")}
    tiers = registered & {"slow", "compared", "campaign", "processes", "node", "cluster"}
    assert len(tiers) == 6
    marked = pytestconfig.stash[MARKED]
    assert "parametrize" in marked[Path(__file__)]
    assert {module: unseen for module, marks in marked.items() if (unseen := (marks & tiers) - mentioned(module))} == {}


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_works_after_the_collection_as_it_did_before(collects: bool) -> None:
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        collection = pytest_collection()
        next(collection)
        assert not gc.isenabled()
        with pytest.raises(StopIteration):
            collection.send(None)
        assert gc.isenabled() is collects
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        (gc.enable if was else gc.disable)()
