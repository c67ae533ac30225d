"""Secrets encrypted by SOPS for age: opened by their key alone, refused when anything of the file was changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.adapters.sources.sops import Sops
from tenantry.kinds.admission import Admission
from tenantry.model.tree import Tree
from tests.scenario.git.sealing import KeyPair, sealed
from tests.support.source_folders import StoredPackages

ADMISSION = Admission()
KEY, OTHER = KeyPair(), KeyPair()
CLEAR = "correct horse battery staple"


def secret(name: str = "ann", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "tenant-acme", "labels": {"tenantry.dev/credential": "identity"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": CLEAR}, **more}


TENANT = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"}, "spec": {"displayName": CLEAR}}


async def read(folder: Path, text: str, keys: Path | None) -> Tree:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "secrets.yaml").write_text(text)
    packages = PackageFiles(StoredPackages(), lambda source, target: None)
    return await Directory(folder / "src", lambda each: ADMISSION.admit(each, None), packages, Sops(keys)).read()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with two keys, the second of which is KEY."""
    file = KEY.write(tmp_path / "keys.txt")
    file.write_text(f"{OTHER.identity}\n\n{file.read_text()}")
    return file


@pytest.mark.parametrize("only_encrypted", [False, True])
async def test_it_is_opened_and_admitted_as_if_it_had_been_written_so(tmp_path: Path, keys: Path, only_encrypted: bool) -> None:
    documents = [secret("ann", immutable=True), secret("ben", stringData={"password": "päss: word\n", "empty": ""})]
    tree = await read(tmp_path, sealed(documents, KeyPair(), KEY, only_encrypted=only_encrypted), keys)
    assert tree.problems == ()
    assert [each.document for each in tree.documents] == [ADMISSION.admit(each, None) for each in documents]
    assert all(each.sealed for each in tree.documents)


async def test_objects_beside_the_secrets_are_read_too_and_covered_by_the_mac(tmp_path: Path, keys: Path) -> None:
    text = sealed([TENANT, secret()], KEY)
    assert [each.ref.kind for each in (await read(tmp_path, text, keys)).documents] == ["Tenant", "Secret"]
    changed = text.replace(f"displayName: {CLEAR}", "displayName: other")
    assert changed != text
    (problem,) = (await read(tmp_path, changed, keys)).problems
    assert str(problem).endswith("sops.mac: does not match: the file was changed after it was encrypted; encrypt it again")


def swapped(text: str) -> str:
    """The values of two keys, each in the other's place."""
    first, second = re.findall(r"ENC\[AES256_GCM,data:[^\]]*type:str\]", text)[:2]
    return text.replace(first, "HERE").replace(second, first).replace("HERE", second)


TWO = {"password": CLEAR, "other": "another"}
CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "a value of another place": (swapped, "stringData.password: cannot be decrypted"),
    "a value in clear instead": (
        lambda text: re.sub(r"other: ENC\[[^\]]*\]", "other: plain", text),
        "sops.mac: does not match",
    ),
    "a value left out": (lambda text: re.sub(r"  other: ENC\[[^\]]*\]\n", "", text), "sops.mac: does not match"),
    "another name": (lambda text: text.replace("name: ann", "name: bob"), "sops.mac: does not match"),
    "another time": (lambda text: text.replace("T10:00", "T10:01"), "sops.mac: cannot be decrypted"),
    "no mac": (lambda text: text.replace("  mac: ", "  cam: "), "sops: is not metadata of SOPS"),
    "metadata that is none": (lambda text: f"{text.partition('sops:')[0]}sops: yes\n", "sops: is not metadata of SOPS"),
    "no metadata": (
        lambda text: text.partition("sops:")[0],
        "stringData.password: is encrypted, and the document's `sops` is missing",
    ),
    "a broken value": (lambda text: text.replace("iv:", "iv:!", 1), "stringData.password: cannot be decrypted"),
    "a document beside it in clear": (
        lambda text: f"{text}---\n{yaml.safe_dump(TENANT)}",
        "is not encrypted, and other documents",
    ),
    "keys for pgp alone": (
        lambda text: re.sub(r"  age:\n(?:  - .*\n(?:    .*\n|\n)*)+", "  age: []\n", text).replace("pgp: []", "pgp: [{fp: A}]"),
        "sops.age: the file is encrypted for pgp, not for age",
    ),
    "shared keys": (lambda text: text.replace("sops:\n", "sops:\n  key_groups: [{}]\n"), "sops.key_groups: keys that are shared"),
    "an age header that is none": (lambda text: text.replace("BEGIN AGE", "BEGIN EGA"), "sops.age: no key of"),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
async def test_a_file_that_was_changed_is_refused_and_tells_no_value(
    tmp_path: Path, keys: Path, change: Callable[[str], str], why: str
) -> None:
    text = sealed([secret(stringData=TWO)], KEY)
    changed = change(text)
    assert changed != text
    tree = await read(tmp_path, changed, keys)
    assert tree.documents == ()
    told = "\n".join(map(str, tree.problems))
    assert re.match(rf"secrets\.yaml:\d+: .*{re.escape(why)}|secrets\.yaml:\d+: {re.escape(why)}", told), told
    assert CLEAR not in told


KEY_FILES: dict[str, tuple[Callable[[Path], Path | None], str]] = {
    "none": (
        lambda folder: None,
        f"the file is encrypted for {KEY.recipient}; set TENANTRY_SOPS__AGE_KEY_FILE",
    ),
    "another": (lambda folder: OTHER.write(folder / "keys.txt"), "no key of "),
    "absent": (lambda folder: folder / "nowhere.txt", "cannot be read: No such file or directory"),
    "a folder": (lambda folder: folder, "cannot be read: Is a directory"),
}


@pytest.mark.parametrize(("file", "why"), KEY_FILES.values(), ids=KEY_FILES)
async def test_without_its_key_it_is_refused_with_the_line_and_the_recipient(
    tmp_path: Path, file: Callable[[Path], Path | None], why: str
) -> None:
    (problem,) = (await read(tmp_path, sealed([secret()], KEY), file(tmp_path))).problems
    assert (problem.file, problem.problem.field) == ("secrets.yaml", "sops.age")
    assert problem.line > 10
    assert why in problem.problem.reason


@pytest.fixture
def misspelt(keys: Path) -> Path:
    keys.write_text("# mine\nAGE-SECRET-KEY-1OOPS\n")
    return keys


async def test_a_line_of_the_key_file_that_is_no_key_is_named_by_its_number_alone(tmp_path: Path, misspelt: Path) -> None:
    (problem,) = (await read(tmp_path, sealed([secret()], KEY), misspelt)).problems
    assert problem.problem.reason == f"line 2 of the key file {misspelt} is not an AGE-SECRET-KEY"


async def test_what_people_see_stays_in_clear_in_the_repository(tmp_path: Path, keys: Path) -> None:
    for documents, regex, field in (
        ([TENANT], "^spec$", "spec.displayName"),
        ([secret()], "^(metadata|stringData)$", "metadata.name"),
        ([secret()], ".", "apiVersion"),
    ):
        (problem,) = (await read(tmp_path, sealed(documents, KEY, regex=regex), keys)).problems
        assert problem.problem.field == field
        assert "only data and stringData of Secrets may be" in problem.problem.reason
        assert CLEAR not in str(problem)


@pytest.mark.parametrize(
    "data", [{"data": {"password": CLEAR}}, {"data": {"password": 5}}, {"stringData": {"password": 271828}}], ids=str
)
async def test_a_secret_that_is_refused_once_it_is_open_tells_no_value(tmp_path: Path, keys: Path, data: dict[str, Any]) -> None:
    document = {key: value for key, value in secret().items() if key != "stringData"} | data
    tree = await read(tmp_path, sealed([document], KEY), keys)
    told = "\n".join(map(str, tree.problems))
    assert "data.password" in told or "stringData.password" in told
    assert CLEAR not in told
    assert "271828" not in told
