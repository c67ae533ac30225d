"""Signatures of packages: those of the real minisign are taken, everything else is refused with its reason."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tenantry.kinds.signatures import LONGEST, refusal
from tests.unit.kinds.signing import Minisign

# Made by minisign 0.11: `minisign -S -t 'crm 1.0.0'`, and with `-l` for the one without hashing.
CONTENT = b"the bytes of a package"
DIGEST = hashlib.blake2b(CONTENT).hexdigest()
KEY = "RWTex8LZvgTJS5YdV1txWEZ4Igmqdf5SueQ4xt7WbnKTabDDeA5AG/Ft"
SIGNATURE = """untrusted comment: untrusted
RUTex8LZvgTJS/xulQzO6egk3yJ/fCBZZ28Cohg8RDIAtxXo/s59gtbD1s4LZXuQXchjbz4oEiri1X6JSKJAUHFNtVA/smip9g0=
trusted comment: crm 1.0.0
bG/n8w4hFhSNa/ZNbTfnmp8IXZaLlLPYB5oHBBe800w8sMFrKUAycX7TB4HCzsS95yWp4lg4/z5/QT8Pp9QLCg==
"""
UNHASHED = """untrusted comment: signature from minisign secret key
RWTex8LZvgTJS57xkLKTwyDQBBkSYsarMePHyGugpRPOg5f3j1Sv5hCaYsHKsayOBlAkj9hmJSNMpxZQFgyIfsgAE3ziMUM2hwo=
trusted comment: timestamp:1795264521	file:file
wcHsjd+1jS/IjdKE7fJo4hrkQwkFHstZ1onJNxtYinhbeBz9PFmgc77Scb6DHnDwDMtEowoyZD58bnPIu5d/CA==
"""
OTHER = Minisign(b"\2" * 8)
NO_FILE = "is not a file of minisign with a hashed signature"
BY = "by key 4BC904BED9C2C7DE"


@pytest.mark.parametrize("text", [SIGNATURE, SIGNATURE.strip(), SIGNATURE.replace("\n", "\r\n")], ids=["as it is", "cut", "CRLF"])
def test_what_minisign_signed_is_taken_by_any_of_the_keys(text: str) -> None:
    assert refusal(text, DIGEST, [OTHER.public, KEY]) == ""


def test_the_signer_of_these_tests_writes_the_same_format() -> None:
    assert refusal(OTHER.sign(CONTENT), DIGEST, [KEY, OTHER.public]) == ""


def _with(line: int, text: str) -> str:
    lines = SIGNATURE.splitlines()
    lines[line] = text
    return "\n".join(lines)


def _changed(line: int, at: int) -> str:
    raw = bytearray(base64.b64decode(SIGNATURE.splitlines()[line]))
    raw[at] ^= 1
    return _with(line, base64.b64encode(raw).decode())


REFUSED = {
    "none": ("", "it has no signature"),
    "another key's": (OTHER.sign(CONTENT), "it is signed by key 0202020202020202, which is not listed"),
    "another key's under this one's name": (Minisign(base64.b64decode(KEY)[2:10]).sign(CONTENT), BY),
    "one of other bytes": (_changed(1, 20), BY),
    "another comment": (_with(2, "trusted comment: crm 2.0.0"), BY),
    "another seal of the comment": (_changed(3, 0), BY),
    "one without hashing": (UNHASHED, NO_FILE),
    "three lines": ("\n".join(SIGNATURE.splitlines()[:3]), NO_FILE),
    "five lines": (SIGNATURE + "more\n", NO_FILE),
    "no base64": (_with(1, "!" * 100), NO_FILE),
    "a short signature": (_with(1, "RUTex8LZvgTJSw=="), NO_FILE),
    "a short seal": (_with(3, "RUTex8LZvgTJSw=="), NO_FILE),
    "no trusted comment": (_with(2, "comment: crm"), NO_FILE),
    "too much": (_with(2, "trusted comment: " + "x" * LONGEST), NO_FILE),
    "text": ("signed, me", NO_FILE),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(text: str, told: str) -> None:
    assert told in refusal(text, DIGEST, [KEY])


def test_a_good_signature_is_none_of_other_bytes() -> None:
    for digest in (hashlib.blake2b(b"other").hexdigest(), hashlib.sha256(CONTENT).hexdigest(), "", "no hex"):
        assert BY in refusal(SIGNATURE, digest, [KEY])
