"""A release: two builds are equal, its statements are true, and its wheel runs from an empty place."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tenantry.kinds.crds import KINDS
from tenantry.kinds.signatures import refusal
from tenantry.rest.release import VERSION
from tests.cluster.charting import program
from tests.release.__main__ import release
from tests.release.packages import build_packages
from tests.release.signing import public_key, signature
from tests.release.staging import ROOT, Commit, ReleaseRefused, current_commit
from tests.scenario.tools import lacking
from tests.support.built_programs import MissingProgram, built_once

pytestmark = pytest.mark.slow
WHEEL, SOURCE = f"tenantry-{VERSION}-py3-none-any.whl", f"tenantry-{VERSION}.tar.gz"
CHART = f"tenantry-chart-{VERSION}"
UV, CYCLONEDX = "uv==0.13.9", "cyclonedx-python-lib[json-validation]==11.12.0"
INSTALL_S, START_S = 600, 120


def secret_key(encrypted: bool = False) -> str:
    """A secret key as `minisign -G -W` writes it."""
    key = Ed25519PrivateKey.generate()
    pair = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    head = b"Ed" + (b"Sc" if encrypted else b"\0\0") + b"B2" + bytes(48)
    raw = base64.b64encode(head + b"\7" * 8 + pair + bytes(32)).decode()
    return f"untrusted comment: minisign secret key\n{raw}\n"


SECRET = secret_key()


@pytest.fixture(scope="module")
def commit() -> Commit:
    return current_commit()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, commit: Commit) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    release(folder, commit, SECRET)
    return folder


def test_two_builds_are_byte_for_byte_equal(made: Path, commit: Commit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    before = os.umask(0o077)
    try:
        release(tmp_path / "again", commit, SECRET)
    finally:
        os.umask(before)

    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (made, tmp_path / "again"))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_the_source_package_builds_the_same_wheel(made: Path, commit: Commit, tmp_path: Path) -> None:
    with tarfile.open(made / SOURCE) as source:
        source.extractall(tmp_path, filter="data")

    build_packages(tmp_path / f"tenantry-{VERSION}", commit, tmp_path / "dist")

    assert (tmp_path / "dist" / WHEEL).read_bytes() == (made / WHEEL).read_bytes()


def test_the_digests_are_those_of_all_files_and_signed(made: Path) -> None:
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, capture_output=True, text=True, check=False
    )
    listed = {line.split("  ")[1] for line in (made / "SHA256SUMS").read_text().splitlines()}

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert listed == {path.name for path in made.iterdir()} - {"SHA256SUMS", "SHA256SUMS.minisig"}
    signed = (made / "SHA256SUMS.minisig").read_text()
    digest = hashlib.blake2b((made / "SHA256SUMS").read_bytes()).hexdigest()
    assert refusal(signed, digest, [public_key(SECRET)]) == ""
    assert refusal(signed, hashlib.blake2b(b"other bytes").hexdigest(), [public_key(SECRET)]) != ""


def test_minisign_accepts_the_signature_for_these_digests_and_no_others(made: Path, tmp_path: Path) -> None:
    minisign = shutil.which("minisign")
    if minisign is None:
        lacking("no minisign here: apt-get install minisign")
    for name in ("SHA256SUMS", "SHA256SUMS.minisig"):
        shutil.copy(made / name, tmp_path)
    other = public_key(secret_key())

    def verified(key: str) -> subprocess.CompletedProcess[str]:
        command = [minisign, "-V", "-m", "SHA256SUMS", "-P", key]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    accepted = verified(public_key(SECRET))
    assert (accepted.returncode, "Signature and comment signature verified" in accepted.stdout) == (0, True), accepted.stderr
    assert verified(other).returncode != 0
    (tmp_path / "SHA256SUMS").write_text("none\n")
    refused = verified(public_key(SECRET))
    assert (refused.returncode, refused.stderr.strip()) == (1, "Signature verification failed")


@pytest.mark.parametrize(
    ("secret", "why"), [("", "not a secret key"), ("a\nb", "not a secret key"), (secret_key(True), "has a password")]
)
def test_a_key_that_cannot_sign_is_refused(secret: str, why: str) -> None:
    with pytest.raises(ReleaseRefused, match=why):
        signature(secret, b"", "")


def test_the_provenance_names_the_commit_and_every_file(made: Path, commit: Commit) -> None:
    statement = json.loads((made / "provenance.intoto.json").read_text())
    digests = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    described = {"provenance.intoto.json", "SHA256SUMS", "SHA256SUMS.minisig"}

    assert digests == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made.iterdir() if path.name not in described
    }
    source, *_ = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": commit.id}


def test_the_parts_are_those_of_the_lock_and_valid_cyclonedx(made: Path) -> None:
    file = made / f"tenantry-{VERSION}.cdx.json"
    pinned = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    library = built_once(
        "release", "cyclonedx-11.12.0", lambda folder: installed(folder, CYCLONEDX), "no Python", needs=sys.executable
    )
    program = (
        "import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator as V\n"
        "wrong = V(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read()); sys.exit(str(wrong) if wrong else 0)"
    )

    parts = json.loads(file.read_text())["components"]
    assert [(each["name"], each["version"]) for each in parts] == pinned
    command = [sys.executable, "-c", program, str(file)]
    environment = os.environ | {"PYTHONPATH": str(library)}
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_chart_is_whole_and_so_is_its_layout(made: Path) -> None:
    with tarfile.open(made / f"{CHART}.tgz") as chart:
        held = {member.name: chart.extractfile(member) for member in chart}
        files = {name: file.read() for name, file in held.items() if file is not None}
    ours = ROOT / "charts/tenantry"
    tracked = subprocess.run(["git", "ls-files"], cwd=ours, capture_output=True, text=True, check=True).stdout.split()
    assert set(files) == {f"tenantry/{name}" for name in tracked} - {"tenantry/.helmignore"}

    with tarfile.open(fileobj=io.BytesIO(gzip.decompress((made / f"{CHART}.oci.tar.gz").read_bytes()))) as layout:
        members = {member.name: layout.extractfile(member) for member in layout}
        blobs = {name: file.read() for name, file in members.items() if file is not None}
    (named,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blobs[f"blobs/sha256/{named['digest'].removeprefix('sha256:')}"])
    (layer,) = manifest["layers"]
    assert blobs[f"blobs/sha256/{layer['digest'].removeprefix('sha256:')}"] == (made / f"{CHART}.tgz").read_bytes()
    assert all(hashlib.sha256(blob).hexdigest() == name.rpartition("/")[2] for name, blob in blobs.items() if "sha256/" in name)


def test_helm_renders_the_packed_chart_as_it_does_its_folder(made: Path) -> None:
    try:
        helm = program("helm")
    except MissingProgram as missing:
        lacking(str(missing))
    command = [str(helm), "template", "tenantry", "--namespace", "tenantry-system", "--set", "admin.existingSecret=admin"]
    charts: list[Path] = [made / f"{CHART}.tgz", ROOT / "charts/tenantry"]
    packed, folder = (
        subprocess.run([*command, str(chart)], capture_output=True, text=True, check=True).stdout for chart in charts
    )
    assert "kind: Deployment" in packed
    assert packed == folder


def test_the_definitions_are_those_of_all_kinds(made: Path) -> None:
    defined = [each["spec"]["names"]["kind"] for each in yaml.safe_load_all((made / "crds.yaml").read_text())]

    assert sorted(defined) == sorted(kind.KIND for kind in KINDS)


def test_the_wheel_holds_the_documentation_and_nothing_of_the_tests(made: Path) -> None:
    names = zipfile.ZipFile(made / WHEEL).namelist()

    assert "tenantry/site/reasons/index.html" in names
    assert [name for name in names if not name.startswith(("tenantry/", f"tenantry-{VERSION}.dist-info/"))] == []


def test_the_readme_s_first_commands_run_from_the_wheel(made: Path, tmp_path: Path) -> None:
    *commands, up = block("release")
    (tmp_path / WHEEL).symlink_to(made / WHEEL)
    script = "set -euo pipefail\n" + "\n".join(commands)
    # Python compiles what it imports. To compile all that was installed takes pip most of its time.
    run_by = outside(PIP_COMPILE="0")
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=run_by, capture_output=True, text=True, check=False, timeout=INSTALL_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "files are as they were installed" in done.stdout
    assert_serves(up, tmp_path)

    (edited,) = tmp_path.glob("tenantry-env/lib/*/site-packages/tenantry/rest/release.py")
    edited.write_text(edited.read_text() + "# edited\n")
    checked = subprocess.run(
        [tmp_path / "tenantry-env/bin/tenantry", "version", "--verify"],
        capture_output=True,
        text=True,
        check=False,
        env=outside(),
    )
    assert (checked.returncode, checked.stderr) == (1, f"{edited.resolve()}: differs from the package\n")


def test_uvx_runs_the_wheel(made: Path, tmp_path: Path) -> None:
    tools = built_once("release", "uv-0.13.9", lambda folder: installed(folder, UV), "there is no Python", needs=sys.executable)
    (command,) = block("uvx")
    (tmp_path / WHEEL).symlink_to(made / WHEEL)
    uv = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable, "UV_NO_CONFIG": "1"}
    path = f"{tools / 'bin'}:{os.environ['PATH']}"
    begun = command.removesuffix("up platform") + "init platform"
    subprocess.run(["bash", "-c", begun], cwd=tmp_path, env=outside(PATH=path, **uv), check=True, timeout=INSTALL_S)
    assert_serves(command, tmp_path, PATH=path, **uv)


def block(tag: str) -> list[str]:
    """The commands of the README's block with that tag."""
    (found,) = re.findall(rf"^```sh {tag}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands: list[str] = found.splitlines()
    return commands


def installed(folder: Path, requirement: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*pip, requirement], check=True)


def outside(**more: str) -> dict[str, str]:
    """The environment of somebody who has no clone."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TENANTRY", "VIRTUAL"))} | more


def assert_serves(command: str, folder: Path, **more: str) -> None:
    """Run the command, which ends in `up`, until its documentation is read, and end it."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command} --listen 127.0.0.1:0"], cwd=folder, env=outside(**more), stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        try:
            url = next(found_in(up.stdout))
            for path in ("/docs/", "/docs/reasons/", "/docs/api/"):
                page = httpx.get(f"{url}{path}", timeout=START_S)
                assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        finally:
            up.terminate()
        assert up.wait(START_S) == 0


def found_in(lines: Iterator[str]) -> Iterator[str]:
    """Yield the addresses that `up` prints."""
    for line in lines:
        yield from re.findall(r"^  (http://[0-9.:]+)$", line)
