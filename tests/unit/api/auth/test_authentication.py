"""Tokens of the facade: whose they are at every request, and what ends them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.requests import Request

from tenantry.adapters.keys import KeyRing
from tenantry.api.auth.authentication import AUDIENCE, Authenticator
from tenantry.kinds.user.sessions import KEPT, SignedOut, ended, signed_out
from tenantry.kinds.user.spec import User
from tenantry.model.facts import Password, SecretFacts
from tenantry.model.resource import SIGNED_OUT, SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth.sign_in import Basic
from tests.support.cached_objects import Objects

HOUR = timedelta(hours=1)


class Vault:
    """Secrets of one password, which can be changed. when_revealed: what happens while somebody compares it."""

    fingerprint, fault = "one", ""

    def __init__(self) -> None:
        self.when_revealed: Callable[[], object] = lambda: None

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        return SecretFacts("Present", self.fingerprint, fault=self.fault)

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        self.when_revealed()
        return Password(clear="a long password")

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        raise NotImplementedError

    async def remove(self, ref: Ref) -> None:
        raise NotImplementedError


class Stand:
    """An authenticator whose clock can be moved."""

    def __init__(self, folder: Path) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.objects = Objects()
        self.vault = Vault()
        self.keys = KeyRing(folder, "tenantry", lambda: self.now)
        self.authenticator = Authenticator(self.keys, self.objects.cache, self.vault, lambda: self.now)

    def user(self, role: str = "ADMIN", tenant: str | None = "acme", namespace: str = SYSTEM_NAMESPACE, uid: str = "") -> User:
        """Bound to its tenant as it is now. uid: to another incarnation of it."""
        spec = {"username": "eve", "role": role, "passwordSecretRef": {"name": "eve"}}
        bound = {"name": tenant, "uid": uid or self.uid_of(tenant)} if tenant else None
        self.objects.put("User", "eve", spec | ({"tenant": tenant} if tenant else {}), namespace, status={"tenant": bound})
        found = self.objects.cache.resource(Ref("User", namespace, "eve"))
        assert isinstance(found, User)
        return found

    def user_now(self) -> User:
        found = self.objects.cache.resource(Ref("User", SYSTEM_NAMESPACE, "eve"))
        assert isinstance(found, User)
        return found

    def signed_out(self) -> SignedOut:
        return signed_out(self.user_now().metadata.annotations)

    def uid_of(self, tenant: str) -> str:
        found = self.objects.cache.resource(Ref("Tenant", "", tenant))
        return found.metadata.uid if found is not None else "gone"

    async def role(self, token: str) -> str:
        return (await self.authenticator.principal(_sending(token))).caller.role

    def sign_out(self, token: str) -> None:
        """As the route does, in whichever replica."""
        session = self.authenticator.session(_sending(token))
        document = self.objects.cache.document(session.user)
        assert document is not None
        after = ended(document, session, self.now)
        self.objects.put("User", "eve", after["spec"], SYSTEM_NAMESPACE, status=after["status"], metadata=_annotated(after))


def _annotated(document: Document) -> dict[str, Any]:
    return {"annotations": document["metadata"]["annotations"]}


def _sending(token: str) -> Request:
    return Request({"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]})


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    stand = Stand(tmp_path)
    stand.objects.tenant("acme")
    return stand


async def test_a_token_is_its_living_user(stand: Stand) -> None:
    assert await stand.role(stand.authenticator.issue(stand.user(), HOUR)) == "ADMIN"


def _deletes_user(stand: Stand) -> None:
    document = stand.objects.cache.document(Ref("User", SYSTEM_NAMESPACE, "eve"))
    assert document is not None
    stand.objects.cache.remove({**document, "metadata": {**document["metadata"], "resourceVersion": "999"}})


def _deletes_tenant(stand: Stand) -> None:
    document = stand.objects.cache.document(Ref("Tenant", "", "acme"))
    assert document is not None
    stand.objects.cache.remove({**document, "metadata": {**document["metadata"], "resourceVersion": "999"}})


def _changes_password(stand: Stand) -> None:
    stand.vault.fingerprint = "two"
    stand.objects.cache.absorb(
        {"kind": "Secret", "metadata": {"name": "eve", "namespace": SYSTEM_NAMESPACE, "uid": "s", "resourceVersion": "999"}}
    )


def _replaces_tenant(stand: Stand) -> None:
    stand.objects.put("Tenant", "acme", {}, metadata={"uid": "another"})


def _passes(stand: Stand) -> None:
    stand.now += HOUR + timedelta(seconds=31)


def _binds_user(stand: Stand) -> None:
    _replaces_tenant(stand)
    stand.user()


def _moves_user(stand: Stand) -> None:
    stand.objects.tenant("globex")
    stand.user(tenant="globex")


ENDS: dict[str, Callable[[Stand], Any]] = {
    "its user is deleted": _deletes_user,
    "its tenant is deleted": _deletes_tenant,
    "its tenant is another of the same name": _replaces_tenant,
    "its user is bound to another of the same name": _binds_user,
    "its user's role changes": lambda stand: stand.user("VIEWER"),
    "its user's tenant changes": _moves_user,
    "its user's password changes": _changes_password,
    "its hour is over, and the leeway": _passes,
}
AT_ONCE = sorted(ENDS.keys() - {"its hour is over, and the leeway"})


@pytest.mark.parametrize("event", ENDS)
async def test_a_token_ends_when(stand: Stand, event: str) -> None:
    token = stand.authenticator.issue(stand.user(), HOUR)
    assert await stand.role(token) == "ADMIN"
    ENDS[event](stand)
    with pytest.raises(Unauthorized):
        await stand.role(token)


async def test_a_password_that_the_documentation_excludes_lets_nobody_in(stand: Stand) -> None:
    stand.user()
    assert await stand.authenticator.sign_in(Basic("eve", "a long password"), "127.0.0.1")
    stand.vault.fault = "must have 8 to 1024 characters"
    with pytest.raises(Unauthorized, match="wrong username or password"):
        await stand.authenticator.sign_in(Basic("eve", "a long password"), "127.0.0.1")


@pytest.mark.parametrize("event", AT_ONCE)
async def test_a_sign_in_during_it_gets_no_token_that_outlives_it(stand: Stand, event: str) -> None:
    stand.user()
    stand.vault.when_revealed = lambda: ENDS[event](stand)
    with pytest.raises(Unauthorized):
        user = await stand.authenticator.sign_in(Basic("eve", "a long password"), "127.0.0.1")
        await stand.role(stand.authenticator.issue(user, HOUR))


async def test_a_sign_out_ends_one_session_and_no_other(stand: Stand) -> None:
    mine, other = (stand.authenticator.issue(stand.user(), HOUR) for _ in range(2))
    stand.sign_out(mine)
    with pytest.raises(Unauthorized, match="signed out"):
        await stand.role(mine)
    assert await stand.role(other) == "ADMIN"


async def test_a_sign_out_is_kept_until_its_token_expires(stand: Stand) -> None:
    tokens = [stand.authenticator.issue(stand.user(), HOUR) for _ in range(3)]
    stand.sign_out(tokens[0])
    stand.now += timedelta(minutes=30)
    stand.sign_out(tokens[1])
    assert len(stand.signed_out().sessions) == 2
    late = stand.authenticator.issue(stand.user_now(), HOUR)
    stand.now += timedelta(minutes=31)
    stand.sign_out(late)
    assert len(stand.signed_out().sessions) == 1


@pytest.mark.slow
async def test_too_many_sign_outs_end_all_sessions_of_the_user_and_later_ones_hold(stand: Stand) -> None:
    bystander = stand.authenticator.issue(stand.user(), HOUR)
    for _ in range(KEPT):
        stand.sign_out(stand.authenticator.issue(stand.user_now(), HOUR))
    assert await stand.role(bystander) == "ADMIN"
    stand.sign_out(stand.authenticator.issue(stand.user_now(), HOUR))
    assert stand.signed_out() == SignedOut(round=1)
    with pytest.raises(Unauthorized):
        await stand.role(bystander)
    assert await stand.role(stand.authenticator.issue(stand.user_now(), HOUR)) == "ADMIN"


@pytest.mark.parametrize("text", ["", "x", "1 a", "1 a:b", "-1", "9 :1", "1 a:²"])
def test_an_annotation_that_was_edited_by_hand_is_read_as_far_as_it_can_be(text: str) -> None:
    assert signed_out({SIGNED_OUT: text}).sessions == {}


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode().rstrip("=")


def forged(stand: Stand) -> dict[str, str]:
    good = stand.authenticator.issue(stand.user(), HOUR)
    claims, stamp = {"sub": stand.user().id, "aud": AUDIENCE}, {"stamp": "x"}
    head, body, signature = good.split(".")
    other = {"iss": "tenantry", "exp": 4e9, "nbf": 0, **claims, **stamp}
    return {
        "no algorithm": f"{_part({'alg': 'none'})}.{body}.",
        "a symmetric algorithm": f"{_part({'alg': 'HS256', 'kid': 'k'})}.{body}.{signature}",
        "another body": f"{head}.{_part(other)}.{signature}",
        "a cut signature": good[:-4],
        "another audience": stand.keys.sign({**claims, **stamp, "aud": "engine:x"}, HOUR),
        "no stamp": stand.keys.sign(claims, HOUR),
        "another stamp": stand.keys.sign({**claims, **stamp}, HOUR),
        "an unknown user": stand.keys.sign({**claims, **stamp, "sub": "nobody"}, HOUR),
        "no token at all": "x",
        "a token of a megabyte": "a" * 1_000_000,
        "characters of another alphabet": "é.é.é",
    }


@pytest.mark.parametrize("row", range(11))
async def test_a_forged_token_is_refused(stand: Stand, row: int) -> None:
    name, token = list(forged(stand).items())[row]
    with pytest.raises(Unauthorized):
        header = [(b"authorization", b"Bearer " + token.encode("latin-1"))]
        await stand.authenticator.principal(Request({"type": "http", "headers": header}))
        pytest.fail(name)


async def test_a_user_that_a_tenant_writes_into_its_own_namespace_is_nobody(stand: Stand) -> None:
    intruder = stand.user("SUPERUSER", None, namespace="tenant-acme")
    with pytest.raises(Unauthorized):
        await stand.role(stand.authenticator.issue(intruder, HOUR))
