"""The hint of `tenantry token` for a username that nobody has."""

from __future__ import annotations

import pytest

from tenantry.cli.clients.issuing import hint_for
from tests.unit.kinds.factories import user

USERS = [user("acme-admin", spec={"username": "anna@acme.example"}), user("ops", spec={"username": "operations"})]
OBJECT = "; user/acme-admin has the username anna@acme.example: write --user anna@acme.example"
ROWS = {
    "the name of the object": ("acme-admin", OBJECT),
    "namespace and name": ("tenantry-system/acme-admin", OBJECT),
    "kind and name": ("user/acme-admin", OBJECT),
    "kind, namespace and name, as get -o name writes it": ("user/tenantry-system/acme-admin", OBJECT),
    "a username that is almost right": ("operation", "; did you mean operations?"),
    "an object of another namespace": ("tenant-acme/acme-admin", ""),
    "nothing alike": ("zzz", ""),
}


@pytest.mark.parametrize(("given", "hint"), ROWS.values(), ids=ROWS)
def test_a_name_of_an_object_leads_to_its_username(given: str, hint: str) -> None:
    assert hint_for(given, USERS) == hint
