"""Rules of plain English that a program can check, for Markdown pages, docstrings, messages and comments."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

WIDTH, WORDS = 100, 40
CLAUSE = re.compile(r"(What|Who|Whom|Whose|How|Where|Whether|Which|Why|When|Do|Does|Did|Is|Are|Was|Were|Has|Have)\b(?!-)")
TELLS = re.compile(r"\b(tells|told)\b", re.IGNORECASE)
FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^ *([-*+]|\d+\.) +")
LINK = re.compile(r"\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
UNBREAKABLE = re.compile(r"\]\([^)]*\)|`[^`]{60,}`")
COMMENT = re.compile(r"^ *# ?(.*)")
PRAGMA = re.compile(r"#!|# ?(noqa|type: ignore|pragma|fmt:)")
END = re.compile(r"(?<=[.!?])[)\"']*\s+")


@dataclass(frozen=True)
class Finding:
    line: int
    rule: str
    text: str


def in_markdown(page: str) -> list[Finding]:
    """Return the lines and sentences of a page that break a rule. Code blocks are not prose."""
    lines = list(_prose_lines(page))
    long = [Finding(number, f"over {WIDTH} characters", line) for number, line in lines if _too_wide(line)]
    blocks = [found for number, block in _blocks(lines) for found in _in_sentences(number, block)]
    return sorted((*long, *blocks), key=lambda each: each.line)


def in_docstrings(tree: ast.Module) -> list[Finding]:
    """Return the docstrings of a module, by line, that break a rule."""
    return [found for line, text in docstrings(tree) for found in in_docstring(line, text)]


def in_docstring(line: int, text: str) -> Iterator[Finding]:
    if CLAUSE.match(text):
        yield Finding(line, "opens with a clause", text.splitlines()[0])
    for paragraph in re.split(r"\n\s*\n|\n(?= *[-*] )", text):
        yield from _in_sentences(line, paragraph)


DIALECT = re.compile(
    r"\b(alone|meanwhile|by now|tells?|told|there is none|for good|another's|another [A-Z]\w+'s|save (?:for|where|that|what)"
    r"|whoever|nobody's|likewise|where (?:empty|absent)|in sight|of the platform's own|is let be|any more|is not there|looked at"
    r"|(?<!there )(?<!There )is no (?!longer|room|limit)\w+|stands? (?:here|there|twice)|engines? of (?:others|another)|unasked"
    r"|anew|lets? (?:it|them) go)\b"
)
HASHED = "nobody's password"
"""A value that nobody reads."""


def in_messages(tree: ast.Module) -> list[Finding]:
    """Return the texts of a module that people may read and that are not plain: errors, conditions, helps, descriptions."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: list[Finding] = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in documentation and text != HASHED:
                found += _dialect(node.lineno, text)
    return found


def in_comments(text: str) -> list[Finding]:
    """Return the comments of a manifest, template or Makefile, by line, that break a rule. Lines in a row are one comment."""
    found: list[Finding] = []
    start, comment = 0, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match COMMENT.match(line):
            case re.Match() as written if written[1].strip():
                start, comment = (start, f"{comment}\n{written[1]}") if comment else (number, written[1])
            case _ if comment:
                found += [*_in_sentences(start, comment), *_dialect(start, comment)]
                comment = ""
    return found


def in_comments_of_code(source: str) -> list[Finding]:
    """Return the comments of a module, by line, that break a rule. Comments on lines in a row are one comment."""
    found: list[Finding] = []
    start, comment = 0, ""
    for number, text in [*_comments(source), (0, "")]:
        follows = number == start + comment.count("\n") + 1
        if comment and not follows:
            found += [*_in_sentences(start, comment), *_dialect(start, comment)]
        start, comment = (start, f"{comment}\n{text}") if comment and follows else (number, text)
    return found


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment, without those that only a program reads."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT and not PRAGMA.match(token.string):
            yield token.start[0], token.string.lstrip("#").strip()


def in_notes(text: str) -> list[Finding]:
    """Return the words of a plain text that break a rule: its commands are no sentences."""
    return [found for number, line in enumerate(text.splitlines(), 1) for found in _dialect(number, line)]


def _dialect(line: int, text: str) -> Iterator[Finding]:
    return (Finding(line, f"not {word[0]!r}", text.strip()) for word in DIALECT.finditer(text))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the line and the text of each docstring, and of each string that documents an attribute."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def pages(root: Path) -> list[Path]:
    return [
        *(root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "CHANGELOG.md")),
        root / "examples" / "README.md",
        *sorted((root / "docs").rglob("*.md")),
    ]


def commented(root: Path) -> list[Path]:
    """Files of other languages that people read: the chart, the examples and the Makefile."""
    return [root / "Makefile", *sorted((root / "charts").rglob("*.yaml")), *sorted((root / "examples").rglob("*.yaml"))]


def _prose_lines(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside code blocks; an empty line stands for each of those inside."""
    fenced, before = False, ""
    for number, line in enumerate(page.splitlines(), 1):
        mark = FENCE.match(line) is not None
        indented = line.startswith("    ") and (not before.strip() or before.startswith("    ")) and not ITEM.match(line)
        yield number, "" if fenced or mark or indented else line
        fenced ^= mark
        before = line


def _too_wide(line: str) -> bool:
    return not line.startswith("|") and len(UNBREAKABLE.sub("", line)) > WIDTH


def _blocks(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, list items and cells of tables, each with its first line."""
    start, block = 0, ""
    for number, line in [*lines, (0, "")]:
        starts = not line.strip() or line.startswith(("|", "#", "<!--")) or ITEM.match(line)
        if starts and block:
            yield start, block
            block = ""
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.split("|"))
        elif line.strip() and not line.startswith("<!--"):
            start, block = (number, line) if not block else (start, f"{block}\n{line}")


def _in_sentences(line: int, text: str) -> Iterator[Finding]:
    for sentence in END.split(CODE.sub("code", LINK.sub("]", text))):
        words = sentence.split()
        if len(words) > WORDS:
            yield Finding(line, f"{len(words)} words in a sentence", " ".join(words[:8]))
        if TELLS.search(sentence):
            yield Finding(line, "shows or says, not tells", " ".join(words[:12]))
