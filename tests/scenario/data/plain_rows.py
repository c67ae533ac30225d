"""A table of types that SQLite writes as JSON itself, and rows with the values that are written in more than one way."""

from __future__ import annotations

from typing import Any

from tests.scenario.data_world import MANIFEST

TEXTS = [
    "",
    "plain",
    'a "quote" and a \\',
    "\x01\x1f\x7f\b\t\n\f\r",
    "日本 \U0001f600 \u2028",
    "</script>",
    "x" * 400,
    "null",
    "1",
]
PLAIN = MANIFEST.replace(
    "roles:",
    """  - name: plain
    primaryKey: [code]
    columns:
      - {name: code, type: string, length: 20}
      - {name: n, type: integer}
      - {name: big, type: bigint}
      - {name: flag, type: boolean}
      - {name: day, type: date}
      - {name: moment, type: datetime}
      - {name: token, type: uuid}
      - {name: note, type: text}
      - {name: extra, type: json}
roles:""",
).replace("kinds: [read, write]}", "kinds: [read, write], plain: [read, write]}")
EXTRAS: list[Any] = [
    {"a": [1, None], "ä": "日本 \U0001f600 \u2028 </script>"},
    [],
    {},
    "text",
    1.0,
    -0.0,
    1e300,
    2**63,
    [[["deep"], {"b": {"c": True}}], 0.1],
]
ROWS: list[dict[str, Any]] = [
    {
        "code": f"{number:03}",
        "n": number - 4,
        "big": str(9007199254740993 - number),
        "flag": number % 2 == 0,
        "day": "2026-02-03",
        "moment": f"2026-02-03T04:05:0{number}{'.000100' * (number % 3)}Z" if number % 3 < 2 else "1999-12-31T23:59:59.999999Z",
        "token": f"0AAbbcc0-dd11-4e22-8f33-4455667788{number}9".lower(),
        "note": text,
        "extra": EXTRAS[number],
    }
    for number, text in enumerate(TEXTS)
] + [{"code": "none"} | dict.fromkeys(("n", "big", "flag", "day", "moment", "token", "note", "extra"))]
