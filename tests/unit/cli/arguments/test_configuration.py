"""Settings that are refused are named as the person gave them."""

from __future__ import annotations

import dataclasses

import pytest

from tenantry.cli.arguments.configuration import OPTIONS, load
from tenantry.cli.output.failing import Failure
from tenantry.cli.processes.up_start import UpCall

REFUSED = {"listen": "foo", "metrics": "foo", "public_url": "foo"}
"""A wrong value of each setting that has some; every path may be a state folder."""


def test_each_setting_of_a_command_has_its_option() -> None:
    given = UpCall(".", **dict.fromkeys(OPTIONS, "x"))  # type: ignore[arg-type]
    assert set(given.settings) == set(OPTIONS) == {*REFUSED, "state"}
    assert {*OPTIONS} <= {each.name for each in dataclasses.fields(UpCall)}


@pytest.mark.parametrize("name", REFUSED)
def test_a_setting_is_refused_by_the_name_that_gave_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match=f"^{OPTIONS[name]}: "):
        load(**{name: REFUSED[name]})
    variable = f"TENANTRY_{name.upper()}"
    monkeypatch.setenv(variable, REFUSED[name])
    with pytest.raises(Failure, match=f"^{variable}: "):
        load()
