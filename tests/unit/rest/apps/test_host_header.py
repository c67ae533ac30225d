"""The host of a request: one reading for the console, whose origin it guards, and for engines that a request wakes."""

from __future__ import annotations

import pytest

from tenantry.rest.apps.host_header import LONGEST, host_of

WELL_FORMED = {
    "a.example.com": "a.example.com",
    "A.Example.COM": "a.example.com",
    "a.example.com:8443": "a.example.com",
    "a.example.com:": "a.example.com",
    "dev--acme_2.example.com": "dev--acme_2.example.com",
    "localhost:8080": "localhost",
    "127.0.0.1:8080": "127.0.0.1",
    "[::1]": "::1",
    "[::1]:80": "::1",
    "[2001:DB8:0:0::1]:8443": "2001:db8::1",
    f"{'a' * 253}:65535": "a" * 253,
}
MALFORMED = (
    "",
    " ",
    "[",
    "]",
    "[]",
    "[]:80",
    "[::1",
    "::1",
    "::1]",
    "[::1]80",
    "[::1]x",
    "[::1%25lo]",
    "[127.0.0.1]",
    "[localhost]",
    "[:::]",
    ":80",
    "localhost:http",
    "localhost:80:80",
    "localhost:-1",
    "localhost:+80",
    "localhost:123456",
    "localhost:٣",
    "localhost, localhost",
    "localhost ",
    " localhost",
    "localhost\n",
    "localhost/",
    "localhost/console",
    "localhost?",
    "localhost#",
    "localhost\\",
    "somebody@localhost",
    "localhost@evil.example",
    "http://localhost",
    "//localhost",
    "local%68ost",
    "löcalhost",
    "localhost\x00",
    "a" * 254,
    "a" * 1_000_000,
)


def sent_to(*headers: bytes) -> str:
    return host_of({"headers": [(b"accept", b"*/*"), *((b"host", each) for each in headers)]})


@pytest.mark.parametrize(("header", "host"), WELL_FORMED.items(), ids=range(len(WELL_FORMED)))
def test_the_host_is_read_without_its_port(header: str, host: str) -> None:
    assert sent_to(header.encode()) == host


@pytest.mark.parametrize("header", MALFORMED, ids=lambda header: repr(header[:24]))
def test_a_malformed_header_names_no_host(header: str) -> None:
    assert (sent_to(header.encode()), sent_to(header.encode("latin-1", "replace"))) == ("", "")


def test_a_request_without_the_header_has_no_host() -> None:
    assert sent_to() == ""


def test_the_first_header_counts() -> None:
    assert sent_to(b"a.example.com", b"localhost") == "a.example.com"


def test_the_longest_name_fits() -> None:
    assert len(f"{'a' * 253}:65535") == LONGEST
