from __future__ import annotations

import base64
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.secrets import Remedy, StoreSecrets, by_kubectl, by_tenantry
from tenantry.kinds.credentials import without_secret
from tenantry.model.resource import CREDENTIAL_LABEL, SYSTEM_NAMESPACE, Document, Ref, SecretKeyRef
from tenantry.model.verdicts import Halt, NotFound, Waiting
from tests.unit.adapters.store.documents import ADMISSION, namespace, secret

KEY = b"k" * 32
HASH = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$aGFzaA"


class Kit:
    """A store, and secrets that peek at what it returned last."""

    def __init__(self, remedy: Remedy = by_tenantry) -> None:
        self.store = MemoryStore(ADMISSION)
        self.seen: dict[Ref, Document] = {}
        self.secrets = StoreSecrets(self.store, self.seen.get, KEY, remedy)

    async def put(self, document: dict[str, Any]) -> Ref:
        created = await self.store.create(document)
        ref = Ref("Secret", created["metadata"]["namespace"], created["metadata"]["name"])
        self.seen[ref] = created
        return ref


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.mark.parametrize(
    ("name", "key", "for_kind", "state", "reason"),
    [
        pytest.param("absent", "password", "identity", "Missing", "SecretMissing", id="absent"),
        pytest.param("s", "password", "user", "NotLabelled", "SecretNotLabelled", id="labelled for another kind"),
        pytest.param("s", "token", "identity", "NoKey", "SecretKeyMissing", id="without the key"),
    ],
)
async def test_what_cannot_be_used_is_told_by_its_state_and_waited_for(
    kit: Kit, name: str, key: str, for_kind: str, state: str, reason: str
) -> None:
    await kit.put(secret("s", "hunter2"))
    facts = kit.secrets.look(SYSTEM_NAMESPACE, name, key, for_kind)
    assert (facts.state, facts.fingerprint) == (state, "")
    with pytest.raises(Halt) as halt:
        await kit.secrets.reveal(SYSTEM_NAMESPACE, name, key, for_kind)
    assert isinstance(halt.value.verdict, Waiting)
    assert halt.value.verdict.reason == reason


REMEDIES: dict[tuple[str, Remedy], str] = {
    ("Missing", by_tenantry): "run `tenantry secret set tenant-acme/ada password=- --for identity`",
    (
        "Missing",
        by_kubectl,
    ): "run `kubectl create secret generic ada -n tenant-acme --from-file=password=FILE`, then"
    " `kubectl label secret ada -n tenant-acme tenantry.dev/credential=identity`",
    ("NoKey", by_kubectl): "add it with `kubectl edit secret ada -n tenant-acme`",
    ("NotLabelled", by_kubectl): "run `kubectl label secret ada -n tenant-acme tenantry.dev/credential=identity`",
}


@pytest.mark.parametrize(("state", "remedy"), REMEDIES)
def test_a_missing_secret_names_the_command_of_its_host(state: str, remedy: Remedy) -> None:
    kit = Kit(remedy)
    if state != "Missing":
        labels = {CREDENTIAL_LABEL: "identity" if state == "NoKey" else "user"}
        kit.seen[Ref("Secret", "tenant-acme", "ada")] = {"metadata": {"labels": labels}, "data": {}}

    facts = kit.secrets.look("tenant-acme", "ada", "password", "identity")

    assert facts.remedy == REMEDIES[state, remedy]
    secret_ref = SecretKeyRef(name="ada", key="password")
    assert without_secret(facts, secret_ref, "spec.passwordSecretRef", "identity").message.endswith(REMEDIES[state, remedy])


async def test_a_labelled_secret_is_revealed_with_the_fingerprint_that_look_tells(kit: Kit) -> None:
    await kit.put(secret("s", "hunter2"))
    password = await kit.secrets.reveal(SYSTEM_NAMESPACE, "s", "password", "identity")
    assert (password.clear, password.hash) == ("hunter2", "")
    facts = kit.secrets.look(SYSTEM_NAMESPACE, "s", "password", "identity")
    assert (facts.state, facts.fingerprint) == ("Present", password.fingerprint)
    assert "hunter2" not in f"{password}{facts}"


async def test_an_argon2id_hash_is_revealed_as_one(kit: Kit) -> None:
    await kit.put(secret("s", HASH))
    password = await kit.secrets.reveal(SYSTEM_NAMESPACE, "s", "password", "identity")
    assert (password.clear, password.hash) == ("", HASH)


async def test_a_value_that_is_no_text_is_waited_for(kit: Kit) -> None:
    document = secret("s", "")
    del document["stringData"]
    await kit.put({**document, "data": {"password": "/w=="}})
    with pytest.raises(Halt, match="not UTF-8"):
        await kit.secrets.reveal(SYSTEM_NAMESPACE, "s", "password", "identity")


@pytest.mark.parametrize(
    ("value", "fault"),
    {
        b"8 chars.": "",
        b"7 chars": "must have 8 to 1024 characters",
        b"": "must have 8 to 1024 characters",
        b"x" * 1025: "must have 8 to 1024 characters",
        b"\xff" * 8: "is not UTF-8 text",
        HASH.encode(): "",
        b"$argon2id$broken": "must be an argon2id hash",
        HASH.replace("19456", "1048576").encode(): "is an argon2id hash that costs more than",
    }.items(),
)
async def test_the_password_of_a_user_is_checked_as_documented(kit: Kit, value: bytes, fault: str) -> None:
    """Of other objects, an engine checks the password, and a token of a Git server has any length."""
    for purpose in ("user", "identity"):
        document = secret(purpose, "", for_kind=purpose)
        del document["stringData"]
        await kit.put({**document, "data": {"password": base64.b64encode(value).decode()}})
    look = kit.secrets.look
    assert look(SYSTEM_NAMESPACE, "user", "password", "user").fault.startswith(fault)
    assert bool(look(SYSTEM_NAMESPACE, "user", "password", "user").fault) == bool(fault)
    assert not look(SYSTEM_NAMESPACE, "identity", "password", "identity").fault


async def test_a_fingerprint_depends_on_value_key_and_namespace_alone(kit: Kit) -> None:
    await kit.store.create(namespace("other"))
    places = [await kit.put(secret(*spec)) for spec in (("a", "x"), ("b", "x"), ("c", "y"), ("a", "x", "other"))]
    marks = [kit.secrets.look(ref.namespace, ref.name, "password", "identity").fingerprint for ref in places]
    rekeyed = StoreSecrets(kit.store, kit.seen.get, b"other" * 8).look(*places[0][1:], "password", "identity")
    assert marks[0] == marks[1]
    assert len({*marks, rekeyed.fingerprint}) == 4
    assert all(len(mark) == 32 for mark in marks)


async def test_ensure_makes_a_random_password_once(kit: Kit) -> None:
    first, second = Ref("Secret", SYSTEM_NAMESPACE, "a"), Ref("Secret", SYSTEM_NAMESPACE, "b")
    for ref in (first, second, first):
        await kit.secrets.ensure(ref, "environment")
    one, other = [(await kit.secrets.reveal(*ref[1:], "password", "environment")).clear for ref in (first, second)]
    assert one != other
    assert min(len(one), len(other)) >= 24
    before = await kit.store.get(first)
    await kit.secrets.ensure(first, "environment")
    assert await kit.store.get(first) == before


async def test_remove_takes_what_ensure_made_and_nothing_else(kit: Kit) -> None:
    theirs = await kit.put(secret("theirs", "x"))
    ours = Ref("Secret", SYSTEM_NAMESPACE, "ours")
    await kit.secrets.ensure(ours, "environment")
    for ref in (theirs, ours, ours):
        await kit.secrets.remove(ref)
    assert await kit.store.get(theirs)
    with pytest.raises(NotFound):
        await kit.store.get(ours)
