"""Tries of what hangs on Sources: their clones, what is written back to them, and approvals of what left them."""

from __future__ import annotations

from typing import Any, NamedTuple

from tenantry.model.resource import PRUNE_APPROVED
from tests.cluster.running import until
from tests.scenario.references.reference_story import HERE, NAMESPACE, READY_S, WAITS, Story
from tests.scenario.repositories import Remote

API = "apiVersion: tenantry.dev/v1alpha1\n"
ENTERED: dict[str, Any] = {"credentials": {"secretRef": {"name": "enters"}}}
FOLLOWED: dict[str, Any] = {"branch": "main", "interval": "1s"}
WRITTEN: dict[str, Any] = {**FOLLOWED, **ENTERED, "writeBack": {"mode": "Branch"}}


class Repository(NamedTuple):
    """A repository. mark: what the first tenant left there, or was given for it."""

    remote: Remote
    url: str
    mark: str = ""


def package(name: str, version: str = "1") -> str:
    where = f"metadata: {{name: {name}, namespace: {NAMESPACE}}}"
    return f"{API}kind: Package\n{where}\nspec: {{app: {name}, version: '{version}'}}\n"


def clones(story: Story) -> Repository:
    """A Source of a repository that wants a password."""
    remote, url = story.outside.repository("cloned", private=True)
    _followed(story, "cloned", remote, url)
    return Repository(remote, url)


def has_no_clone(story: Story, first: Repository) -> None:
    """The same repository, without the password."""
    story.declare("Source", "cloned", url=first.url, **FOLLOWED)
    told = story.comes_to("sources", "cloned", "RemoteRefused", "CredentialsRefused", "RemoteAway")
    assert told["status"].get("revision") is None
    assert not story.there("packages", "cloned-1")


def is_read_anew(story: Story) -> None:
    remote, url = story.outside.repository("cloned-again", private=True)
    before = _followed(story, "cloned-again", remote, url)
    story.remove("source", "cloned-again")
    commit = remote.commit({"two.yaml": package("cloned-again-2")})
    story.declare("Source", "cloned-again", url=url, **FOLLOWED, **ENTERED)
    told = story.ready("sources", "cloned-again")
    assert told["metadata"]["uid"] != before["metadata"]["uid"]
    assert (told["status"]["revision"], told["status"]["objects"]) == (commit, 2)
    held = story.host.get("packages", NAMESPACE, "cloned-again-1")["metadata"]["labels"]
    assert held["tenantry.dev/source"] == f"{NAMESPACE}.cloned-again"


def _followed(story: Story, name: str, remote: Remote, url: str) -> Any:
    remote.commit({"one.yaml": package(f"{name}-1")})
    story.secret("enters", "source", "ann:token")
    story.declare("Source", name, url=url, **FOLLOWED, **ENTERED)
    told = story.ready("sources", name)
    assert story.there("packages", f"{name}-1")
    return told


def approves(story: Story) -> Repository:
    remote, url = story.outside.repository("approved")
    approval = _held_back(story, "approved", remote, url)
    story.host("approve", "source/approved", "-n", NAMESPACE)
    until(lambda: not story.there("packages", "approved-1"), "pruned", READY_S)
    return Repository(remote, url, approval)


def was_not_approved(story: Story, first: Repository) -> None:
    """The second customer's Source carries the first one's approval from its start."""
    approval = _held_back(story, "approved", first.remote, first.url, {PRUNE_APPROVED: first.mark})
    assert approval not in ("", first.mark)
    assert story.there("packages", "approved-1")


def is_approved_again(story: Story) -> None:
    remote, url = story.outside.repository("approved-again")
    approval = _held_back(story, "approved-again", remote, url)
    story.host("approve", "source/approved-again", "-n", NAMESPACE)
    until(lambda: not story.there("packages", "approved-again-1"), "pruned", READY_S)
    assert _held_back(story, "approved-again", remote, url, {PRUNE_APPROVED: approval}) != approval
    assert story.there("packages", "approved-again-1")


def _held_back(story: Story, name: str, remote: Remote, url: str, annotations: dict[str, str] | None = None) -> str:
    """A package leaves its Source, which may prune nothing without approval; what an approval would name."""
    remote.commit({"one.yaml": package(f"{name}-1"), "two.yaml": package(f"{name}-2")})
    story.declare("Source", name, annotations, url=url, prune={"objects": 0, "percent": 0}, **FOLLOWED)
    until(lambda: story.there("packages", f"{name}-1"), "applied", READY_S)
    story.ready("sources", name)
    remote.commit({"one.yaml": None})
    return str(story.comes_to("sources", name, "PruneHeld")["status"]["approval"])


def writes(story: Story) -> Repository:
    """A Source to which what the tenant's ADMIN makes over REST is written back, until the tenant's end."""
    remote, url = _writable(story, "written", "written")
    _makes_environment(story, "written")
    assert _paths(remote) == ["README", f"{NAMESPACE}/environment-written.yaml"]
    return Repository(remote, url, remote.git("rev-parse", "main"))


def writes_elsewhere(story: Story, first: Repository) -> None:
    """Neither before the second customer has a Source of that name, nor after."""
    own, _ = _writable(story, "written", "written-elsewhere")
    try:
        _makes_environment(story, "written")
        assert _paths(own) == ["README", f"{NAMESPACE}/environment-written.yaml"]
        assert first.remote.git("rev-parse", "main") == first.mark
    finally:
        story.remove("source", "written")


def is_written_again(story: Story) -> None:
    remote, url = _writable(story, "written-again", "written-again")
    try:
        made = _makes_environment(story, "again")
        story.remove("source", "written-again")
        story.declare("Source", "written-again", url=url, **WRITTEN)
        story.ready("sources", "written-again")
        edited = story.rest("PUT", f"/environments/{made}", json={"name": "Edited"})
        assert edited.status_code == 200, edited.text
        assert "displayName: Edited" in remote.git("show", f"main:{NAMESPACE}/environment-again.yaml")
    finally:
        story.remove("source", "written-again")


def _writable(story: Story, name: str, repository: str) -> tuple[Remote, str]:
    remote, url = story.outside.repository(repository)
    remote.commit({"README": "empty"})
    story.secret("enters", "source", "ann:token")
    story.declare("Source", name, url=url, **WRITTEN)
    story.ready("sources", name)
    return remote, url


def _makes_environment(story: Story, slug: str) -> str:
    made = story.rest("POST", "/environments", json={**HERE, "slug": slug}, headers=WAITS)
    assert made.status_code == 202, made.text
    return str(made.json()["environment"]["id"])


def _paths(remote: Remote) -> list[str]:
    return remote.git("ls-tree", "-r", "--name-only", "main").splitlines()
