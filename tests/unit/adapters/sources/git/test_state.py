"""The status of a Git source, from what was read and from the answers of its remote."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenantry.adapters.sources.documents import whole
from tenantry.adapters.sources.git.command import GitFailed
from tenantry.adapters.sources.git.refusals import CREDENTIALS_REFUSED, REPOSITORY_NOT_FOUND, Means
from tenantry.adapters.sources.git.state import READ_ATTEMPTS, Contact, FetchProgress, Root, shown
from tenantry.adapters.sources.git.tree import MOST_PROBLEMS
from tenantry.model.tree import Revision, Tree

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "https://forge.example/repository"
GOOD, ROOT = Tree(revision=Revision("c" * 40, "", lambda place: None, lambda commit, ref: None)), Root("t" * 40, "", "")
BROKEN = Tree(problems=(whole("a.yaml", "is broken"),))
UNREADABLE = whole(URL, "cannot be read")


def test_a_revision_is_taken_as_a_whole_or_not_at_all() -> None:
    good = FetchProgress().taken(ROOT, GOOD)
    assert (good.good, good.root, good.held) == (GOOD, ROOT, ())
    broken = good.taken(Root("u" * 40, "", ""), BROKEN)
    assert (broken.good, broken.root, broken.held) == (GOOD, ROOT, BROKEN.problems)
    assert broken.taken(ROOT, GOOD).held == ()


def test_a_commit_that_git_cannot_read_is_tried_a_few_times() -> None:
    tries, progress = 0, FetchProgress().unreadable(UNREADABLE)
    while progress.tries_again:
        tries, progress = tries + 1, progress.unreadable(UNREADABLE)
    assert tries + 1 == READ_ATTEMPTS
    assert not progress.taken(ROOT, BROKEN).tries_again


def test_a_commit_that_is_not_trusted_is_not_tried_again() -> None:
    assert not FetchProgress().held_back(whole(URL, "is not taken")).tries_again


def test_problems_are_counted_beyond_the_most_that_are_shown() -> None:
    many = Tree(problems=tuple(whole(f"{number}.yaml", "is broken") for number in range(MOST_PROBLEMS + 7)))
    held = FetchProgress().taken(ROOT, many).held
    assert len(held) == MOST_PROBLEMS + 1
    assert "has 7 more problems" in str(held[-1])


@pytest.mark.parametrize(
    ("said", "refusal", "shut"),
    [
        ("fatal: Authentication failed for 'https://forge.example/repository/'", CREDENTIALS_REFUSED, True),
        ("remote: Repository not found.", REPOSITORY_NOT_FOUND, False),
        ("fatal: unable to access: Could not resolve host", "", False),
    ],
)
def test_only_a_refused_access_shuts_a_remote(said: str, refusal: str, shut: bool) -> None:
    contact = Contact().failed(GitFailed("git failed", said), Means(), NOON)
    assert (contact.refusal, contact.shut) == (refusal, shut)


def test_the_first_failure_says_since_when() -> None:
    once = Contact().failed(OSError("no route"), Means(), NOON)
    twice = once.failed(OSError("timed out"), Means(), NOON + timedelta(minutes=1))
    assert (twice.failures, twice.away) == (2, "since 2026-03-01T12:00:00Z: timed out")
    assert Contact().away == ""


@pytest.mark.parametrize(
    ("progress", "contact", "tree"),
    [
        (FetchProgress(good=GOOD), Contact(), GOOD),
        (FetchProgress(good=GOOD), Contact(1, "noon", "no route"), replace(GOOD, away="since noon: no route")),
        (FetchProgress(good=GOOD, held=BROKEN.problems), Contact(), replace(GOOD, held=BROKEN.problems)),
        (FetchProgress(held=BROKEN.problems), Contact(), BROKEN),
        (
            FetchProgress(),
            Contact(1, "noon", "no route"),
            Tree(problems=(whole(URL, "cannot be fetched: no route"),), away="since noon: no route"),
        ),
    ],
    ids=["good", "away", "held back", "nothing good yet", "never reached"],
)
def test_what_is_shown(progress: FetchProgress, contact: Contact, tree: Tree) -> None:
    assert shown(progress, contact, URL) == tree
