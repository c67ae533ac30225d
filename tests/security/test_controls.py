"""Each control is switched off once, and the attacks that it holds off then get through: a table that cannot fail proves nothing.

Counted, for docs/decisions: `pytest tests/security/test_controls.py -m '' -rP` prints how many.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp.resolver import ThreadedResolver
from joserfc import jwt

from tenantry.cli.processes.http import slow_clients
from tenantry.model.verdicts import Invalid, Unauthorized
from tenantry.oidc import issuers, tokens
from tenantry.packages import check
from tenantry.rest import bodies, outbound, uploads
from tenantry.rest.fetching import session
from tenantry.rest.outbound import Outbound, Rules, Unreachable
from tests.campaigns.tried import Tried
from tests.crash import test_uploads
from tests.security import test_slow_clients
from tests.security.forging import CLIENT, FORGED, LOOPBACK, token_of
from tests.security.hostile_packages import hostile
from tests.support.hostile_addresses import URLS, Listener, listener, resolver
from tests.support.package_limits import LIMITS
from tests.support.token_world import World, world
from tests.support.upload_world import world as uploading
from tests.support.waiting import eventually

__all__ = ["listener", "resolver", "uploading", "world"]
pytestmark = pytest.mark.slow
Off = Callable[[pytest.MonkeyPatch], None]
SOON_S = 4.0
"""Seconds that are waited for a file to go that nothing removes."""


def without(*claims: str) -> Off:
    """Claims that are not looked at."""

    def off(patch: pytest.MonkeyPatch) -> None:
        real = tokens.ForeignTokens._rules

        def rules(self: Any, *given: Any) -> jwt.JWTClaimsRegistry:
            whole = real(self, *given)
            kept = {name: option for name, option in whole.options.items() if name not in claims}
            return jwt.JWTClaimsRegistry(now=whole.now, leeway=10**10 if "exp" in claims else whole.leeway, **kept)

        patch.setattr(tokens.ForeignTokens, "_rules", rules)

    return off


class Everything:
    """Holds whatever is asked for."""

    def __contains__(self, _: object) -> bool:
        return True

    def __rsub__(self, _: object) -> set[str]:
        return set()


def replaced(owner: Any, name: str, value: Any) -> Off:
    return lambda patch: patch.setattr(owner, name, value)


def both(*offs: Off) -> Off:
    def off(patch: pytest.MonkeyPatch) -> None:
        for each in offs:
            each(patch)

    return off


TOKENS: dict[str, tuple[Off, int]] = {
    "nothing is switched off": (both(), 0),
    "the audience": (without("aud"), 1),
    "the issuer": (without("iss"), 1),
    "the times": (without("exp"), 1),
    "the parties": (replaced(tokens, "_check_party", lambda *_: None), 1),
    "the types": (replaced(tokens, "_TYPES", Everything()), 1),
    "the keys that may verify": (replaced(issuers, "_SHORTEST_RSA_BITS", 512), 1),
}


@pytest.mark.parametrize(("off", "least"), TOKENS.values(), ids=TOKENS)
async def test_s3_forged_tokens(world: World, monkeypatch: pytest.MonkeyPatch, off: Off, least: int) -> None:
    off(monkeypatch)
    let_in = [name for name, make in FORGED.items() if await world.status(make(world)) != 401]
    print(f"{len(let_in)} of {len(FORGED)}: {let_in}")
    assert len(let_in) >= least and (least or not let_in)


@pytest.mark.parametrize(("pause", "fetched"), [(issuers.PAUSE_S, 1), (0.0, 100)], ids=["as it is", "without the pause"])
async def test_s4_unknown_keys(world: World, monkeypatch: pytest.MonkeyPatch, pause: float, fetched: int) -> None:
    monkeypatch.setattr(issuers, "PAUSE_S", pause)
    now = [0.0]
    verifier = tokens.ForeignTokens(issuers.Issuers(Outbound(LOOPBACK), clock=lambda: now[0]))
    await verifier.verify(token_of(world), world.issuer.url, CLIENT)
    world.issuer.asked.clear()
    now[0] += issuers.PAUSE_S
    for number in range(100):
        with pytest.raises(Unauthorized):
            await verifier.verify(token_of(world, header={"kid": f"k{number}"}), world.issuer.url, CLIENT)
    assert world.issuer.asked.count("/jwks") == fetched


def _unchecked(self: Any, info: Any) -> socket.socket:
    return socket.socket(*info[:3])


ADDRESSES: dict[str, tuple[Off, int]] = {
    "nothing is switched off": (both(), 0),
    "which addresses are public": (replaced(outbound, "is_public", lambda _: True), 40),
    "the check of names and of sockets": (
        both(
            replaced(session.CheckedResolver, "resolve", ThreadedResolver.resolve),
            replaced(Outbound, "open_socket", _unchecked),
        ),
        1,
    ),
}


@pytest.mark.parametrize(("off", "least"), ADDRESSES.values(), ids=ADDRESSES)
async def test_s5_addresses(listener: Listener, monkeypatch: pytest.MonkeyPatch, off: Off, least: int) -> None:
    off(monkeypatch)
    made: list[Any] = []

    async def refused(_: socket.socket, address: Any) -> None:
        made.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", refused)
    reached = []
    for name, url in URLS.items():
        made.clear()
        with pytest.raises((Invalid, Unreachable)):
            await Outbound(Rules(), timeout_s=5).get(url.format(port=listener.port))
        reached += [name] if made else []
    print(f"{len(reached)} of {len(URLS)}: {reached}")
    assert len(reached) >= least and (least or not reached)


def _nothing(*_: Any) -> None:
    return


PACKAGES: dict[str, tuple[Off, int]] = {
    "nothing is switched off": (both(), 0),
    "names": (replaced(check, "_check_name", _nothing), 10),
    "names, collisions, links, methods": (replaced(check, "_check_directory", _nothing), 40),
    "files that are folders": (replaced(check, "_check_files_are_no_folders", _nothing), 1),
    "spans": (replaced(check, "_check_spans", _nothing), 1),
    "the end record": (replaced(check, "check_end", _nothing), 5),
    "lengths and bombs": (replaced(check, "_check_contents", _nothing), 3),
}


@pytest.mark.parametrize(("off", "least"), PACKAGES.values(), ids=PACKAGES)
def test_s6_hostile_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: Off, least: int) -> None:
    off(monkeypatch)
    path, table, taken = tmp_path / "p.tapp", hostile(), []
    for name, make in table.items():
        path.write_bytes(make())
        try:
            check.inspect(path, LIMITS)
        except Invalid:
            continue
        except (ValueError, KeyError, OSError) as error:
            taken.append(f"{name}: {type(error).__name__}")
        else:
            taken.append(name)
    print(f"{len(taken)} of {len(table)}: {taken}")
    assert len(taken) >= least and (least or not taken)


@pytest.mark.parametrize(
    "kept",
    [
        [(slow_clients, "WRITE_S"), (bodies, "PATIENCE_SECONDS")],
        [(slow_clients, "HEAD_S"), (bodies, "PATIENCE_SECONDS")],
        [(slow_clients, "HEAD_S"), (slow_clients, "WRITE_S")],
    ],
    ids=["heads", "readers", "bodies"],
)
async def test_s9_slow_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[tuple[Any, str]]) -> None:
    for module, name in ((slow_clients, "HEAD_S"), (slow_clients, "WRITE_S"), (bodies, "PATIENCE_SECONDS")):
        monkeypatch.setattr(module, name, 2.0 if (module, name) in kept else 1e6)
    monkeypatch.setattr(test_slow_clients, "CLIENTS", len(test_slow_clients.PLANS))
    open_ = await test_slow_clients.late(tmp_path, within=5.0)
    print(f"{len(open_)} of {len(test_slow_clients.PLANS)}: {[*open_]}")
    assert open_


@pytest.mark.parametrize("control", ["the removal of what ends early", "the answer of a full disk"])
async def test_r9_uploads(uploading: Any, monkeypatch: pytest.MonkeyPatch, control: str, tried: Tried) -> None:
    if control == "the answer of a full disk":

        @contextmanager
        def raising() -> Iterator[None]:
            yield

        monkeypatch.setattr(uploads, "writing_to_disk", raising)
        with pytest.raises(AssertionError):
            await test_uploads.test_a_disk_that_is_full_at_any_call_is_503_and_keeps_nothing(uploading, tried)
        return
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if not path.name.startswith("upload-"):
            real(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(test_uploads, "eventually", partial(eventually, within=SOON_S))
    with pytest.raises((AssertionError, TimeoutError)):
        await test_uploads.test_a_body_that_ends_at_any_offset_is_refused_and_leaves_nothing(uploading, tried)
