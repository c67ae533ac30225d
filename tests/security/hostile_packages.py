"""Hostile packages by name, and good ones with bytes changed at random: each is made from its name, or its seed, alone."""

from __future__ import annotations

import random
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tests.unit.engine.archives import CONTACTS, manifest

Make = Callable[[], bytes]
KERNEL = random.Random(7).randbytes(600)


@dataclass(frozen=True)
class Entry:
    """One entry as it is written, byte by byte. None: what is true."""

    name: bytes
    content: bytes = b"x"
    method: int = 0
    flags: int = 0x800
    mode: int = stat.S_IFREG | 0o644
    crc: int | None = None
    packed: int | None = None
    size: int | None = None
    offset: int | None = None
    extra: bytes = b""
    local_name: bytes | None = None
    local_extra: bytes = b""
    comment: bytes = b""
    made_by: int = 3 << 8 | 20
    disk: int = 0


@dataclass(frozen=True)
class End:
    """The end of the directory, and what lies around it. None: what is true."""

    entries: int | None = None
    size: int | None = None
    offset: int | None = None
    disk: int = 0
    comment: bytes = b""
    before: bytes = b""
    between: bytes = b""
    behind: bytes = b""
    zip64: bytes = b""


def zipped(*entries: Entry, end: End | None = None, app: bool = True) -> bytes:
    """A zip file with these entries, after a sound app.yaml."""
    end = end or End()
    raw, directory = bytearray(end.before), bytearray()
    written = (Entry(b"app.yaml", manifest(tables=[CONTACTS])), *entries) if app else entries
    for each in written:
        offset = len(raw) if each.offset is None else each.offset
        data, fields = _packed(each)
        local = each.name if each.local_name is None else each.local_name
        raw += (
            b"PK\x03\x04" + struct.pack("<5H3I2H", *fields, len(local), len(each.local_extra)) + local + each.local_extra + data
        )
        directory += b"PK\x01\x02" + struct.pack("<H", each.made_by) + struct.pack("<5H3I", *fields)
        lengths = (len(each.name), len(each.extra), len(each.comment), each.disk, 0)
        directory += struct.pack("<5H2I", *lengths, each.mode << 16 & 0xFFFFFFFF, offset)
        directory += each.name + each.extra + each.comment
    raw += end.between
    start = len(raw)
    raw += directory + end.zip64
    count = len(written) if end.entries is None else end.entries
    size = len(directory) if end.size is None else end.size
    offset = start if end.offset is None else end.offset
    raw += b"PK\x05\x06" + struct.pack("<4H2IH", end.disk, end.disk, count, count, size, offset, len(end.comment))
    return bytes(raw + end.comment + end.behind)


def _packed(entry: Entry) -> tuple[bytes, tuple[int, ...]]:
    data = entry.content
    if entry.method == zipfile.ZIP_DEFLATED:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = deflate.compress(entry.content) + deflate.flush()
    crc = zlib.crc32(entry.content) if entry.crc is None else entry.crc
    packed = len(data) if entry.packed is None else entry.packed
    size = len(entry.content) if entry.size is None else entry.size
    return data, (20, entry.flags, entry.method, 0, 33, crc, packed, size)


def _named(*names: str | bytes) -> Make:
    entries = [Entry(name if isinstance(name, bytes) else name.encode()) for name in names]
    return partial(zipped, *entries)


def _one(**changes: object) -> Make:
    entry = Entry(b"content/a", KERNEL, zipfile.ZIP_DEFLATED)
    return partial(zipped, replace(entry, **changes))  # type: ignore[arg-type]


PATHS = {
    "upwards": "../evil",
    "upwards twice": "../../evil",
    "upwards inside": "content/../evil",
    "upwards at the end": "content/..",
    "upwards from a seed": "seed/../app.ndjson",
    "a dot": "content/./a",
    "only a dot": ".",
    "only two dots": "..",
    "absolute": "/etc/passwd",
    "absolute twice": "//host/share",
    "an empty part": "content//a",
    "a drive": "C:/a",
    "a drive alone": "C:a",
    "a stream": "content:stream",
    "a backslash": "content\\a",
    "upwards by backslashes": "..\\evil",
    "a device path": "\\\\.\\PHYSICALDRIVE0",
    "NUL": "content/a\0b",
    "NUL before an extension": "content/a.html\0.exe",
    "a line end": "content/a\nb",
    "a carriage return": "content/a\rb",
    "a bell": "content/a\x07",
    "delete": "content/a\x7f",
    "an escape": "content/\x1b[31ma",
    "a tab": "content/a\tb",
    "a name of 2,000 bytes": "content/" + "a" * 2000,
    "a name of 60,000 bytes": "content/" + "b" * 60_000,
    "deep": "content/" + "d/" * 600 + "a",
    "nothing": "",
    "a slash": "/",
}
COLLISIONS = {
    "the same name": ("content/a", "content/a"),
    "case": ("content/a", "content/A"),
    "case of a folder": ("content/d/a", "content/D/a"),
    "case of the first folder": ("content/a", "Content/a"),
    "app.yaml in capitals": ("APP.YAML",),
    "app.yaml again": ("app.yaml",),
    "app.yaml, full width": ("\uff41pp.yaml",),
    "symbols in capitals": ("symbols.sym", "SYMBOLS.SYM"),
    "composed and decomposed": ("content/\u00e9", "content/e\u0301"),
    "decomposed in another order": ("content/e\u0323\u0302", "content/e\u0302\u0323"),
    "full width": ("content/a", "content/\uff41"),
    "a ligature": ("content/fi", "content/\ufb01"),
    "sharp s": ("content/ss", "content/\u00df"),
    "capital sharp s": ("content/ss", "content/\u1e9e"),
    "final sigma": ("content/\u03c3", "content/\u03c2"),
    "Kelvin": ("content/k", "content/\u212a"),
    "Angstrom": ("content/\u00e5", "content/\u212b"),
    "long s": ("content/s", "content/\u017f"),
    "Greek mu and micro": ("content/\u03bc", "content/\u00b5"),
    "superscript": ("content/2", "content/\u00b2"),
    "circled": ("content/1", "content/\u2460"),
    "Roman numeral": ("content/iv", "content/\u2173"),
    "Hangul": ("content/\uac00", "content/\u1100\u1161"),
    "ohm": ("content/\u03c9", "content/\u2126"),
    "no-break space": ("content/a b", "content/a\u00a0b"),
    "Cherokee": ("content/\u13a0", "content/\uab70"),
    "a file and a folder": ("content/a", "content/a/"),
    "a file above": ("content/a", "content/a/b"),
    "a file above, in capitals": ("content/A", "content/a/b"),
    "a file above, decomposed": ("content/\u00e9", "content/e\u0301/b"),
    "a file two above": ("content/a", "content/a/b/c"),
    "content itself a file": ("content", "content/a"),
    "a seed twice": ("seed/contacts.ndjson", "seed/Contacts.ndjson"),
}
KINDS = {
    "a symbolic link": stat.S_IFLNK,
    "a character device": stat.S_IFCHR,
    "a block device": stat.S_IFBLK,
    "a pipe": stat.S_IFIFO,
    "a socket": stat.S_IFSOCK,
    "a door": 0xD000,
    "a whiteout": 0xE000,
    "an unknown kind": 0x3000,
}
PLACES = {
    "in content": b"content/a",
    "as a seed": b"seed/contacts.ndjson",
    "as symbols": b"symbols.sym",
    "as a folder": b"content/d/",
}


def _zip64(*values: int) -> bytes:
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)


FULL = 0xFFFFFFFF
LIES: dict[str, Make] = {
    "encrypted": _one(flags=0x801),
    "strongly encrypted": _one(flags=0x841),
    "with an encrypted directory": _one(flags=0x2801),
    **{f"packed by method {method}": _one(method=method) for method in (1, 6, 9, 12, 14, 93, 95, 98, 99, 0xFFFF)},
    "a check sum of zero": _one(crc=0),
    "another check sum": _one(crc=0xDEADBEEF),
    "a size too small": _one(size=1),
    "a size of zero": _one(size=0),
    "a size too large": _one(size=100_000),
    "a size of four gigabytes": _one(size=FULL - 1),
    "packed too small": _one(packed=10),
    "packed to nothing": _one(packed=0),
    "packed too large": _one(packed=5000),
    "packed to gigabytes": _one(packed=FULL - 1),
    "a zip64 size": _one(size=FULL, extra=_zip64(1 << 40)),
    "a zip64 size of all ones": _one(size=FULL, extra=_zip64(2**64 - 1)),
    "a zip64 packed size": _one(packed=FULL, extra=_zip64(1 << 40)),
    "both in zip64": _one(size=FULL, packed=FULL, extra=_zip64(1, 2**63)),
    "a zip64 offset": _one(offset=FULL, extra=_zip64(1 << 40)),
    "a zip64 offset of all ones": _one(offset=FULL, extra=_zip64(2**64 - 1)),
    "a zip64 offset that is negative": _one(offset=FULL, extra=_zip64(2**63)),
    "zip64 without its field": _one(size=FULL, packed=FULL, offset=FULL),
    "a zip64 field cut short": _one(size=FULL, extra=struct.pack("<2H", 1, 8)),
    "a zip64 field of one byte": _one(size=FULL, extra=b"\1\0\1\0x"),
    "an extra field too long": _one(extra=struct.pack("<2H", 0x7075, 9000) + b"x"),
    "some entries on another disk": lambda: zipped()[:-12] + b"\2\0" + zipped()[-10:],
    "an offset behind the file": _one(offset=1 << 30),
    "an offset at another entry": _one(offset=0),
    "an offset within another entry": _one(offset=40),
    "another name in its own header": _one(local_name=b"content/b"),
    "a longer name in its own header": _one(local_name=b"content/" + b"b" * 300),
    "no name in its own header": _one(local_name=b""),
    "an extra field that reaches into the directory": _one(local_extra=b"x" * 90, packed=900),
    "Unicode without its flag, and no UTF-8": _one(name=b"content/\xff\xfe", flags=0x800),
    "a name that is no UTF-8": _one(name=b"content/\xc3\x28"),
    "an overlong slash": _one(name=b"..\xc0\xafevil"),
    "a surrogate": _one(name=b"content/\xed\xa0\x80"),
    "data that is no deflate": _one(content=b"\xff" * 50, method=0, packed=None, crc=None, flags=0x800, size=51),
    "a directory of too many": partial(zipped, *(Entry(b"content/%d" % n) for n in range(40))),
    "a directory that says one": partial(zipped, *(Entry(b"content/%d" % n) for n in range(40)), end=End(entries=1)),
    "more entries than there are": partial(zipped, end=End(entries=9, size=9000)),
    "a directory on another disk": partial(zipped, end=End(disk=3)),
    "a directory too short": partial(zipped, Entry(b"content/a"), end=End(size=50)),
    "a directory too long": partial(zipped, Entry(b"content/a"), end=End(size=5000)),
    "a directory elsewhere": partial(zipped, Entry(b"content/a"), end=End(offset=0)),
    "a directory behind the file": partial(zipped, end=End(offset=FULL)),
    "bytes before": partial(zipped, Entry(b"content/a"), end=End(before=b"#!/bin/sh\n", offset=0)),
    "bytes behind": partial(zipped, end=End(behind=b"x")),
    "a comment": partial(zipped, end=End(comment=b"hello")),
    "a comment with another end": partial(zipped, end=End(comment=b"PK\5\6" + bytes(18))),
    "a second end in 64 bits": partial(zipped, end=End(zip64=b"PK\x06\x06" + bytes(52) + b"PK\x06\x07" + bytes(16))),
    "an end alone": lambda: b"PK\x05\x06" + bytes(18),
    "half an end": lambda: b"PK\x05\x06" + bytes(10),
    "a zip within": lambda: zipped() + zipped(),
    "no app.yaml": partial(zipped, Entry(b"content/a"), app=False),
    "an app.yaml in a folder": partial(zipped, Entry(b"x/app.yaml", manifest()), app=False),
    "an app.yaml that is a folder": partial(zipped, Entry(b"app.yaml/", b""), app=False),
    "an app.yaml that is a link": partial(zipped, Entry(b"app.yaml", b"/etc/passwd", mode=stat.S_IFLNK | 0o777), app=False),
}


def _bomb(length: int, *, method: int = zipfile.ZIP_DEFLATED, fill: bytes = b"\0", **lie: int) -> Make:
    return lambda: zipped(Entry(b"content/a", fill * (length // len(fill)), method, **lie))  # type: ignore[arg-type]


def _kernel(count: int) -> bytes:
    """One kernel that many entries of the directory unpack, as in the bomb of 2019."""
    whole = Entry(b"content/0", b"\0" * 300_000, zipfile.ZIP_DEFLATED)
    start = len(zipped()) - 22 - 46 - len("app.yaml")
    return zipped(whole, *(replace(whole, name=b"content/%d" % n, offset=start) for n in range(1, count)))


def _quoted(count: int) -> bytes:
    """Each entry's extra field reaches over the next entry's header, and so all of them over the last one's bytes."""
    return zipped(*(Entry(b"content/%d" % n, KERNEL, local_extra=b"q" * 5, packed=len(KERNEL) + 500) for n in range(count)))


def _laughs(lines: int) -> bytes:
    """YAML of aliases of aliases."""
    names = "abcdefghijklmnop"
    more = (f"{names[n + 1]}: &{names[n + 1]} [{','.join([f'*{names[n]}'] * 9)}]" for n in range(lines))
    return "\n".join(("a: &a [x,x,x,x,x,x,x,x,x]", *more)).encode()


BOMBS: dict[str, Make] = {
    **{f"{size >> 20} MiB of nothing": _bomb(size) for size in (1 << 20, 2 << 20, 8 << 20, 64 << 20)},
    **{f"8 MiB that its header calls {size}": _bomb(8 << 20, size=size) for size in (0, 1, 1000, FULL - 1)},
    **{f"a pattern of {len(fill)} bytes": _bomb(4 << 20, fill=fill) for fill in (b"ab", b"0123456789", bytes(range(256)))},
    **{f"{count} entries over one kernel": partial(_kernel, count) for count in (2, 5, 19)},
    **{f"{count} entries that quote one another": partial(_quoted, count) for count in (2, 8)},
    "more than may be inflated": _bomb(5 << 20, method=0),
    "many small ones": lambda: zipped(*(Entry(b"content/%d" % n, b"\0" * 255_000, 8) for n in range(18))),
    "an endless app.yaml": partial(zipped, Entry(b"app.yaml", b"#" * 70_000), app=False),
    "an app.yaml of nothing": lambda: zipped(Entry(b"app.yaml", b" " * 3_000_000, 8), app=False),
    "a billion laughs": partial(
        zipped,
        Entry(b"app.yaml", _laughs(12)),
        app=False,
    ),
    "an app.yaml nested deep": partial(zipped, Entry(b"app.yaml", b"[" * 50_000), app=False),
}


def hostile() -> Mapping[str, Make]:
    """All that have a name."""
    found: dict[str, Make] = {}
    found |= {f"a path: {name}": _named(path) for name, path in PATHS.items()}
    found |= {f"names that collide: {name}": _named(*names) for name, names in COLLISIONS.items()}
    for kind, mode in KINDS.items():
        for place, name in PLACES.items():
            found[f"{kind} {place}"] = partial(zipped, Entry(name, b"/etc/passwd", mode=mode | 0o777))
    found |= {f"a lie: {name}": make for name, make in LIES.items()}
    found |= {f"a bomb: {name}": make for name, make in BOMBS.items()}
    return found


def good() -> bytes:
    """The packages that the mutations start from."""
    return zipped(
        Entry(b"content/", b"", mode=stat.S_IFDIR | 0o755),
        Entry(b"content/index.html", b"<h1>CRM</h1>" * 40, zipfile.ZIP_DEFLATED),
        Entry("content/é.txt".encode(), KERNEL),
        Entry(b"seed/contacts.ndjson", b'{"email": "ada@example.com"}\n' * 20, zipfile.ZIP_DEFLATED),
        Entry(b"symbols.sym", KERNEL[:200]),
    )


def mutations(seeds: range) -> Iterator[tuple[int, bytes]]:
    """Good packages with some bytes changed; the same for the same seed."""
    whole = good()
    for seed in seeds:
        yield seed, mutated(whole, seed)


def mutated(whole: bytes, seed: int) -> bytes:
    """Changed, cut, doubled, moved: one to six times, mostly where the structure is."""
    draw, raw = random.Random(seed), bytearray(whole)
    for _ in range(draw.randint(1, 6)):
        at, length = _place(draw, raw), draw.choice((1, 1, 2, 4, 8, 46, 200))
        match draw.randrange(7):
            case 0:
                raw[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                raw[at : at + 4] = struct.pack("<I", draw.choice((0, 1, 0x7FFFFFFF, 0x80000000, FULL, FULL - 1, len(raw))))
            case 2:
                raw[at : at + 2] = struct.pack("<H", draw.choice((0, 1, 8, 0x7FFF, 0xFFFF, 99)))
            case 3:
                del raw[at : at + length]
            case 4:
                raw[at:at] = raw[at : at + length]
            case 5:
                raw[at:at] = draw.choice(
                    (*(b"PK" + mark for mark in (b"\1\2", b"\3\4", b"\5\6", b"\6\6", b"\6\7")), b"../", b"\0")
                )
            case 6:
                other = _place(draw, raw)
                raw[at : at + length] = raw[other : other + length]
    return bytes(raw)


def _place(draw: random.Random, raw: bytearray) -> int:
    """Anywhere, or near one of the structure's signatures."""
    if not raw or draw.random() < 0.3:
        return draw.randrange(len(raw) + 1)
    marks = [at for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06") for at in _all(raw, mark)]
    return min(len(raw), draw.choice(marks or [0]) + draw.randrange(60))


def _all(raw: bytearray, mark: bytes) -> Iterator[int]:
    at = raw.find(mark)
    while at >= 0:
        yield at
        at = raw.find(mark, at + 1)
