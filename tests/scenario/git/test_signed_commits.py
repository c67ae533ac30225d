"""Commits that must be signed: only a tip that one of the keys has signed is taken, and what is written back is signed, too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenantry.model.verdicts import Invalid
from tests.scenario.git_world import ACME, DEV, REGION, git_world
from tests.scenario.repositories import BEN, Remote
from tests.support.signing_keys import Signer, keys, ssh_key

__all__ = ["keys"]

FILES = {"eu.yaml": REGION, "acme.yaml": ACME, "acme/dev.yaml": DEV}


def openpgp_key(folder: Path, name: str) -> Signer:
    home = folder / f"gnupg-{name}"
    home.mkdir(mode=0o700)
    variables = {"GNUPGHOME": str(home)}
    gpg = ("gpg", "--batch", "--quiet", "--homedir", str(home))
    user = f"{name} <{name}@example.com>"
    subprocess.run([*gpg, "--passphrase", "", "--quick-gen-key", user, "ed25519", "sign"], check=True, capture_output=True)
    exported = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout
    return Signer(("-c", f"user.signingKey={name}@example.com"), exported, variables, home)


@pytest.mark.slow
@pytest.mark.parametrize("make", [ssh_key, openpgp_key], ids=["ssh", "openpgp"])
async def test_an_unsigned_or_wrongly_signed_tip_holds_the_sync_and_says_why(make, keys: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    remote = Remote.at(tmp_path / "remote")
    good, bad = make(keys, "good"), make(keys, "bad")
    (tmp_path / "signers").write_bytes(good.trusted)
    remote.commit(FILES)
    good.sign(remote)
    async with git_world(tmp_path / "state", remote, verify=tmp_path / "signers", write_back="off") as world:

        async def told() -> str:
            await world.sync()
            tenant = await world.get("Tenant", "acme")
            assert tenant and tenant["spec"]["displayName"] == "Acme", "the last good commit stays"
            return " ".join(map(str, world.feed.last.problems))

        assert await told() == ""
        unsigned = remote.commit({"acme.yaml": ACME.replace("Acme   #", "Evil  #")}, BEN)
        assert f"{unsigned[:12]} is not applied: it is not signed" in await told()
        wrong = bad.sign(remote)
        assert f"{wrong[:12]} is not applied: its signature was not made with a key of" in await told()
        good.sign(remote)
        await world.sync()
        assert not world.feed.last.problems
        tenant = await world.get("Tenant", "acme")
        assert tenant and tenant["spec"]["displayName"] == "Evil", "its author is trusted by whom has signed it"
        tampered = remote.git("cat-file", "commit", "main").replace("signed", "forged") + "\n"
        forged = remote.git("hash-object", "-t", "commit", "-w", "--stdin", given=tampered.encode())
        remote.git("update-ref", "refs/heads/main", forged)
        await world.sync()
        assert f"{forged[:12]} is not applied: its signature" in " ".join(map(str, world.feed.last.problems))


async def test_keys_of_another_kind_sign_nothing(keys: Path, tmp_path: Path) -> None:
    remote = Remote.at(tmp_path / "remote")
    (tmp_path / "signers").write_bytes(openpgp_key(keys, "good").trusted)
    remote.commit(FILES)
    ssh_key(keys, "ssh").sign(remote)
    async with git_world(tmp_path / "state", remote, verify=tmp_path / "signers", write_back="off") as world:
        assert "another kind of key" in " ".join(map(str, world.feed.last.problems))
        assert await world.get("Tenant", "acme") is None


async def test_what_is_written_back_is_signed_where_commits_are_verified(keys: Path, tmp_path: Path) -> None:
    remote = Remote.at(tmp_path / "remote")
    good, own = ssh_key(keys, "good"), ssh_key(keys, "own")
    (tmp_path / "signers").write_bytes(good.trusted + own.trusted.replace(b"ben@", b"tenantry@"))
    remote.commit(FILES)
    good.sign(remote)
    with pytest.raises(Invalid, match="TENANTRY_GIT__SIGNING_KEY: is required"):
        async with git_world(tmp_path / "state", remote, verify=tmp_path / "signers"):
            pass
    settings: dict[str, Any] = {"verify": tmp_path / "signers", "signing_key": own.key}
    async with git_world(tmp_path / "state", remote, **settings) as world:
        answer = await world("PUT", f"/environments/{await world.id_of('/environments', 'dev')}", json={"name": "Signed"})
        assert answer.status_code == 200, answer.text
        assert "gpgsig" in remote.git("cat-file", "commit", "main")
        await world.sync()
        assert not world.feed.last.problems
        assert world.feed.tree.revision and world.feed.tree.revision.commit == remote.git("rev-parse", "main")
