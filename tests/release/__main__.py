"""`make release`: every artifact of a release from one commit, in dist/. `python -m tests.release [FOLDER]`.

TENANTRY_RELEASE_KEY names the file of a secret key of minisign without a password; without it nothing is signed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tenantry.rest.release import VERSION
from tests.release.archives import chart, files_below, oci_layout, packed
from tests.release.packages import build_packages
from tests.release.signing import public_key, signature
from tests.release.staging import ROOT, Commit, ReleaseRefused, released_commit, stage
from tests.release.statements import digests, origin, parts

DIST = ROOT / "dist"


def release(folder: Path, commit: Commit, secret: str = "") -> dict[str, bytes]:
    """Write all artifacts into an empty folder, and return them by name. secret: of the key that signs; empty for none."""
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / "staged"
        staged.mkdir()
        stage(commit, staged)
        folder.mkdir(parents=True, exist_ok=True)
        build_packages(staged, commit, folder)
        made = {path.name: path.read_bytes() for path in folder.iterdir()}
        made |= _others(staged, commit)
        made["provenance.intoto.json"] = origin(made, staged, commit)
    made["SHA256SUMS"] = digests(made)
    if secret:
        made["SHA256SUMS.minisig"] = signature(secret, made["SHA256SUMS"], f"tenantry {VERSION} {commit.id}")
    for name, content in made.items():
        (folder / name).write_bytes(content)
    return made


def _others(staged: Path, commit: Commit) -> dict[str, bytes]:
    """The artifacts that are no Python packages."""
    chart_file = chart(staged, commit.time)
    definitions = [path.read_text("utf-8").removeprefix("---\n") for path in sorted((staged / "crds").glob("*.yaml"))]
    return {
        f"tenantry-chart-{VERSION}.tgz": chart_file,
        f"tenantry-chart-{VERSION}.oci.tar.gz": packed(oci_layout(chart_file, staged, commit.time), commit.time),
        f"tenantry-{VERSION}.cdx.json": parts(staged, VERSION, commit),
        f"tenantry-docs-{VERSION}.tar.gz": packed(files_below(staged / "operator/tenantry/site", "docs"), commit.time),
        "crds.yaml": "---\n".join(definitions).encode(),
    }


def main(folder: Path) -> None:
    """Release the commit of the work tree, and print what was made."""
    commit = released_commit()
    named = os.environ.get("TENANTRY_RELEASE_KEY", "")
    secret = Path(named).read_text("utf-8") if named else ""
    if folder.exists():
        shutil.rmtree(folder)
    made = release(folder, commit, secret)
    for name, content in sorted(made.items()):
        print(f"{len(content):>12,}  {name}")
    print(f"Release {VERSION} of {commit.id} is in {folder}.")
    if secret:
        print(f"Signed by {public_key(secret)}. Check it with: minisign -Vm SHA256SUMS -P KEY")
    else:
        print("SHA256SUMS is not signed: TENANTRY_RELEASE_KEY names no key.", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else DIST)
    except ReleaseRefused as refused:
        sys.exit(str(refused))
