"""Bundles that are sent to be planned: read as written, or refused with the field at fault."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest

from tenantry.model.tree import Declared, Place, Revision, Tree
from tenantry.model.verdicts import Invalid
from tenantry.rest.plan_bundle import MOST_DOCUMENTS, MOST_PACKAGES, Bundle, read_bundle, take_package, write_bundle

TENANT = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"}, "spec": {}}
SHA256 = 64 * "a"
SOUND = {"name": "default", "commit": "", "documents": []}


def test_a_bundle_is_read_as_it_was_written(tmp_path: Path) -> None:
    file, package = tmp_path / "bundle.zip", tmp_path / "crm.tapp"
    package.write_bytes(b"bytes")
    tree = Tree((Declared.of(TENANT, Place("a.yaml", 7, 2)),), revision=Revision(40 * "1"), passed_over=3)
    write_bundle(file, tree, "default", {SHA256: package}, [40 * "1", 40 * "0"])

    read = read_bundle(file)

    commits = frozenset({40 * "1", 40 * "0"})
    assert read == Bundle("default", 40 * "1", ((Place("a.yaml", 7), TENANT),), (SHA256,), commits, 3)
    take_package(file, SHA256, tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == b"bytes"


def zipped(entries: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def source(**changes: object) -> dict[str, bytes]:
    return {"source.json": orjson.dumps({**SOUND, **changes})}


HOSTILE = {
    "nothing": (b"", "body: is not a zip"),
    "text": (b"kind: Tenant", "body: is not a zip"),
    "a zip that is cut short": (zipped(source())[:-30], "body: is not a zip"),
    "a zip without a source": (zipped({}), "body: is not a zip of source.json"),
    "a bomb": (zipped({"source.json": bytes(10**7)}, zipfile.ZIP_DEFLATED), "'source.json' is compressed"),
    "a path that leads out": (zipped({**source(), "../../etc/passwd": b""}), "holds '../../etc/passwd'"),
    "an absolute path": (zipped({**source(), "/etc/passwd": b""}), "holds '/etc/passwd'"),
    "a package by another name": (zipped({**source(), "packages/crm.tapp": b""}), "holds 'packages/crm.tapp'"),
    "more packages than any": (
        zipped({**source(), **{f"packages/{number:064x}.tapp": b"" for number in range(MOST_PACKAGES + 1)}}),
        "more than 200 packages",
    ),
    "a source that is not JSON": (zipped({"source.json": b"{"}), "source.json: must hold"),
    "a source that is a list": (zipped({"source.json": b"[]"}), "source.json: must hold"),
    "no documents": (zipped({"source.json": b'{"name": "x", "commit": ""}'}), "source.json: must hold"),
    "a document without its place": (zipped(source(documents=[{"kind": "Tenant"}])), "source.json: must hold"),
    "a line that is none": (zipped(source(documents=[["a.yaml", "x", {}]])), "source.json: must hold"),
    "a name that is none": (zipped(source(name=7)), "name and commit must be texts"),
    "a history that is none": (zipped(source(history="1")), "history must be a list of commits"),
    "a commit that is none": (zipped(source(history=[1])), "history must be a list of commits"),
    "a number that is none": (zipped(source(passed_over="1")), "passed_over must be a whole number"),
    "a truth for a number": (zipped(source(passed_over=True)), "passed_over must be a whole number"),
    "less than none": (zipped(source(passed_over=-1)), "passed_over must be a whole number"),
    "a number that no source reaches": (zipped(source(passed_over=10**12)), "passed_over must be a whole number"),
    "no name": (zipped(source(name="")), "name not empty"),
    "too many documents": (zipped(source(documents=[["a", 1, {}]] * (MOST_DOCUMENTS + 1))), "more than 20,000 documents"),
}


@pytest.mark.parametrize(("data", "told"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_bundle_is_refused(tmp_path: Path, data: bytes, told: str) -> None:
    file = tmp_path / "bundle.zip"
    file.write_bytes(data)

    with pytest.raises(Invalid) as refused:
        read_bundle(file)

    assert told in "; ".join(f"{each.field}: {each.reason}" for each in refused.value.problems)
