"""Settings come from the environment, are checked, and name their variable when they are refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from tenantry.settings import (
    Settings,
    parse_address,
    parse_duration,
    parse_networks,
    parse_origins,
    parse_size,
    problems_of,
    variables,
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables():
        monkeypatch.delenv(name, raising=False)


def test_without_any_variable_the_documented_defaults_hold() -> None:
    settings = Settings()
    assert settings.state == Path(".tenantry")
    assert settings.listen == "127.0.0.1:8080"
    assert (settings.operations.keep, settings.operations.per_target) == (timedelta(days=30), 10)
    assert (settings.operations.per_tenant, settings.operations.total) == (500, 5000)
    assert settings.operations.deadline == timedelta(minutes=15)
    assert settings.engine.wait == timedelta(seconds=30)
    assert (settings.prune.objects, settings.prune.share) == (10, 0.5)
    assert settings.packages.size == 1 << 30


def test_a_variable_is_the_path_of_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANTRY_ENGINE__WAIT", "90s")
    monkeypatch.setenv("TENANTRY_PACKAGES__SIZE", "64MiB")
    monkeypatch.setenv("TENANTRY_STATE", "/srv/tenantry")
    settings = Settings()
    assert settings.engine.wait == timedelta(seconds=90)
    assert settings.packages.size == 64 << 20
    assert settings.state == Path("/srv/tenantry")


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANTRY_LISTEN", "0.0.0.0:80")
    assert Settings(listen="127.0.0.1:0").listen == "127.0.0.1:0"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().listen = "127.0.0.1:1"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("TENANTRY_LISTEN", "8080", "'8080' is not an address; write HOST:PORT, such as 127.0.0.1:8080"),
        ("TENANTRY_LISTEN", "127.0.0.1:70000", "'127.0.0.1:70000' is not an address; write HOST:PORT, such as 127.0.0.1:8080"),
        ("TENANTRY_ENGINE__WAIT", "30", "'30' is not a duration; write 90s, 15m, 1h or 30d"),
        ("TENANTRY_ENGINE__WAIT", "0s", "must be longer than 0s"),
        ("TENANTRY_PACKAGES__SIZE", "1GB", "'1GB' is not a size; write 64KiB, 512MiB or 1GiB"),
        ("TENANTRY_PACKAGES__SISE", "1GiB", "there is no such setting"),
        ("TENANTRY_PRUNE__SHARE", "2", "must be at most 1"),
        ("TENANTRY_ISSUERS", "https://id.example.com", "the list: is not JSON"),
        ("TENANTRY_ISSUERS", '[{"issuer": "https://id.example.com"}]', "0.audience: is required"),
        ("TENANTRY_ISSUERS", '[{"issuer": "id", "audience": "a"}]', "0.issuer: must be a URL such as https://login.example.com"),
        ("TENANTRY_ISSUERS", '[{"issuer": "https://i", "audience": "a", "aud": "b"}]', "0.aud: there is no such setting"),
        ("TENANTRY_WORKERS", "0", "must be at least 1"),
    ],
)
def test_a_bad_value_is_refused_naming_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert problems_of(refused.value) == [f"{name}: {reason}"]


def test_every_documented_default_gives_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Settings()
    for name, (default, meaning) in variables().items():
        assert meaning, name
        monkeypatch.setenv(name, default)
    assert Settings() == expected


def test_every_variable_is_in_the_documentation() -> None:
    page = Path(__file__).parents[2].joinpath("docs/cli.md").read_text()
    for name, (default, meaning) in variables().items():
        assert f"| `{name}` | {f'`{default}`' if default else ''} | {meaning} |" in page, name


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("1h30m", 5400), ("30d", 2_592_000)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "h", "1.5h", "-1s", "1h 30m", "99999999999999d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|too long"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("10", 10), ("3B", 3), ("2KiB", 2048), ("1GiB", 1 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8080", ("::1", 8080)), ("localhost:80", ("localhost", 80))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


def test_networks_are_read_and_a_bad_one_is_refused() -> None:
    assert [str(one) for one in parse_networks("10.1.0.0/16, fd00::/8,")] == ["10.1.0.0/16", "fd00::/8"]
    with pytest.raises(ValueError, match=r"10.1.0.1/16 has host bits set; write networks such as"):
        parse_networks("10.1.0.1/16")


def test_origins_are_read_as_browsers_write_them() -> None:
    assert parse_origins("") == ()
    given = "https://app.example.com, http://localhost:5173,http://[::1]:8000"
    assert parse_origins(given) == ("https://app.example.com", "http://localhost:5173", "http://[::1]:8000")


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "app.example.com",
        "https://app.example.com/",
        "https://app.example.com/path",
        "https://App.example.com",
        "https://app.example.com:443",
        "http://app.example.com:80",
        "https://*.example.com",
        "https://user@app.example.com",
        "ftp://app.example.com",
        "https://",
    ],
)
def test_what_no_browser_sends_as_an_origin_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TENANTRY_HTTP__ORIGINS", f"https://ok.example.com,{text}")
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert problems_of(refused.value) == [
        f"TENANTRY_HTTP__ORIGINS: {text!r} is not an origin; write it as browsers do, in lower case, without a path and without "
        "the usual port, such as https://app.example.com; * is not accepted"
    ]
