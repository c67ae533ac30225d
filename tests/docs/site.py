"""The documentation as a site. `make docs` writes it to operator/tenantry/site, which a platform serves at /docs/.

The pages are those of docs/, with the examples and the pages of the top folder. The repository's other files are no part
of the site, so links to them become plain text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "operator/tenantry/site"
TOP = {
    "examples/README.md": "examples.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "SUPPORT.md": "support.md",
}
"""Pages from outside docs/, and where the site has them."""
POLICY = "inline.json"
"""The file with the hashes of the scripts that stand in the pages, for the Content-Security-Policy."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_TAG = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
"""The tag of a block, see tests/docs/test_blocks.py. Its second word says how the block is checked; no generator knows it."""
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_AS_WRITTEN = re.compile(r"(<pre\b.*?</pre>|<script\b.*?</script>)", re.DOTALL)
"""The parts of a page whose white space counts."""
_INDENT = re.compile(r"\s*\n\s*")
_UNUSED = ("**/*.map", "assets/javascripts/lunr", "sitemap.xml.gz", "sitemap.xml")
"""Maps for debuggers, stemmers of other languages, and files for search engines."""
_NAMED = (
    ("**/*.html", 'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'),
    ("assets/javascripts/bundle*.js", '{class:"md-typeset__scrollwrap"}', '{class:"md-typeset__scrollwrap",tabindex:"0"}'),
    ("assets/javascripts/bundle*.js", '"nav",{class:"md-code__nav"}', '"div",{class:"md-code__nav"}'),
)
"""Elements of the theme that lack a name, or the focus of the keyboard: files, text, and the text in its place."""


def build(folder: Path = BUILT) -> None:
    """Write the whole site. Raises CalledProcessError if a link leads nowhere."""
    # Times in the pages would make two builds differ.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "NO_MKDOCS_2_WARNING": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch) / "pages")
        settings = Path(scratch) / "mkdocs.yml"
        settings.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: pages\nsite_dir: {folder}\n", "utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(settings)]
        subprocess.run(command, env=environment, check=True)
    for pattern in _UNUSED:
        for each in folder.glob(pattern):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    for pattern, text, instead in _NAMED:
        replace(folder, pattern, text, instead)
    for page in folder.rglob("*.html"):
        page.write_text(unindented(page.read_text("utf-8")), "utf-8")
    hashes = sorted({_hash(script) for page in folder.rglob("*.html") for script in _INLINE.findall(page.read_text("utf-8"))})
    (folder / POLICY).write_text(json.dumps(hashes, indent=0) + "\n", "utf-8")


def unindented(page: str) -> str:
    """Return the HTML without indents and empty lines: the templates of the theme make a fifth of a page of them."""
    parts = _AS_WRITTEN.split(page)
    parts[::2] = [_INDENT.sub("\n", part) for part in parts[::2]]
    return "".join(parts)


def replace(folder: Path, pattern: str, text: str, instead: str) -> None:
    """Replace the text in all files. Raises LookupError if no file has it: another version of the theme needs another text."""
    found = [path for path in folder.glob(pattern) if text in path.read_text("utf-8")]
    if not found:
        raise LookupError(f"{pattern}: no file has {text}")
    for path in found:
        path.write_text(path.read_text("utf-8").replace(text, instead), "utf-8")


def stage(folder: Path) -> None:
    """Write the pages as the generator reads them."""
    pages = dict(sources())
    for source, target in pages.items():
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = _TAG.sub(r"\1", (ROOT / source).read_text("utf-8"))
            path.write_text(linked(text, source, pages), "utf-8")
        else:
            shutil.copyfile(ROOT / source, path)
    (folder / "decisions/index.md").write_text(_decisions(), "utf-8")


def sources() -> Iterator[tuple[str, str]]:
    """Yield each file of the site: its path in the repository, and its path below the pages."""
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.is_file():
            yield path.relative_to(ROOT).as_posix(), path.relative_to(ROOT / "docs").as_posix()
    yield from TOP.items()


def linked(text: str, source: str, pages: Mapping[str, str]) -> str:
    """Return a page with the links that hold in the site. source: its path in the repository."""

    def moved(found: re.Match[str]) -> str:
        words, target = found.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return found.group(0)
        wanted = os.path.normpath(PurePosixPath(source).parent / path)
        place = "decisions/index.md" if wanted == "docs/decisions" else pages.get(wanted)
        if place is None:
            return words
        near = os.path.relpath(place, PurePosixPath(pages[source]).parent)
        return f"[{words}]({near}{'#' + anchor if anchor else ''})"

    return _LINK.sub(moved, text)


def _decisions() -> str:
    """The list of the decisions, newest first."""
    found = sorted((ROOT / "docs/decisions").glob("2*.md"), reverse=True)
    lines = (f"| {path.name[:10]} | [{_title(path)}]({path.name}) |" for path in found)
    rows = "\n".join(("| date | decision |", "| --- | --- |", *lines))
    return f"# Decisions\n\nEach page has the context of a choice, the decision and its consequence.\n\n{rows}\n"


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


if __name__ == "__main__":
    build()
    size = sum(path.stat().st_size for path in BUILT.rglob("*") if path.is_file())
    print(f"{BUILT.relative_to(ROOT)}: {size / 1e6:.1f} MB. A platform serves it at /docs/.")
