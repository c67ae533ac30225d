"""Rows with rows of related tables in them, on SQLite and on PostgreSQL: the same values as the tables themselves give."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import sqlalchemy as sa

from tenantry.engine.data.reading.embedding import MOST_RELATED
from tenantry.engine.service import Engine
from tests.scenario.data.sent_statements import statements_of
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.postgres import database_url

APP = """
apiVersion: tenantry.dev/app/v1
id: crm
name: Music
version: 1.0.0
tables:
  - name: Artist
    primaryKey: [ArtistId]
    columns: [{name: ArtistId, type: integer, generated: true}, {name: Name, type: text}]
  - name: Album
    primaryKey: [AlbumId]
    columns:
      - {name: AlbumId, type: integer, generated: true}
      - {name: Title, type: text}
      - {name: ArtistId, type: integer}
      - {name: GuestId, type: integer}
    foreignKeys:
      - {columns: [ArtistId], references: Artist, to: [ArtistId]}
      - {columns: [GuestId], references: Artist, to: [ArtistId]}
  - name: Track
    primaryKey: [TrackId]
    columns:
      - {name: TrackId, type: integer, generated: true}
      - {name: Name, type: text}
      - {name: AlbumId, type: integer}
      - {name: Secret, type: integer}
    foreignKeys:
      - {columns: [AlbumId], references: Album, to: [AlbumId]}
      - {columns: [Secret], references: Secrets, to: [id]}
  - name: Secrets
    primaryKey: [id]
    columns: [{name: id, type: integer}]
  - name: Employee
    primaryKey: [id]
    columns: [{name: id, type: integer}, {name: boss, type: integer}, {name: Employee, type: text}]
    foreignKeys: [{columns: [boss], references: Employee, to: [id]}]
  - name: places
    primaryKey: [region, code]
    columns:
      - {name: region, type: string, length: 20}
      - {name: code, type: bigint}
      - {name: big, type: bigint}
      - {name: price, type: decimal, precision: 15, scale: 4}
      - {name: ratio, type: double}
      - {name: truth, type: boolean}
      - {name: day, type: date}
      - {name: moment, type: datetime}
      - {name: extra, type: json}
      - {name: picture, type: blob}
      - {name: token, type: uuid}
      - {name: note, type: text}
WIDE
  - name: visits
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
      - {name: region, type: string, length: 20}
      - {name: code, type: bigint}
    foreignKeys: [{columns: [region, code], references: places, to: [region, code], onDelete: cascade}]
roles:
  editor:
    Artist: [read, write]
    Album: [read, write]
    Track: [read, write]
    Secrets: [read, write]
    Employee: [read, write]
    places: [read, write]
    visits: [read, write]
  reader: {Track: [read], Album: [read], Artist: [write]}
""".replace("WIDE", "\n".join(f"      - {{name: wide{number}, type: integer}}" for number in range(130)))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Engine, str]]:
    url = database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None
    async with engine_with_app(tmp_path, url, APP) as both:
        yield both


@pytest.fixture
async def editor(world: tuple[Engine, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with signed_in(world[1], "ed") as client:
        yield client


async def music(client: httpx.AsyncClient) -> None:
    for table, rows in {
        "Artist": [{"Name": "AC/DC"}, {"Name": "Accept"}],
        "Album": [
            {"Title": "Let There Be Rock", "ArtistId": 1},
            {"Title": "Balls to the Wall", "ArtistId": 2, "GuestId": 1},
            {"Title": "Nobody's", "ArtistId": None},
        ],
        "Secrets": [{"id": 7}],
        "Track": [
            {"Name": "Go Down", "AlbumId": 1},
            {"Name": "Overdose", "AlbumId": 1},
            {"Name": "London", "AlbumId": 2, "Secret": 7},
        ],
    }.items():
        assert (await client.post(f"{DATA}/{table}", json=rows)).status_code == 201


async def get(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(f"{DATA}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


FOUND: dict[str, tuple[str, Any]] = {
    "columns in the order asked for": ("Album/2?select=Title,AlbumId", {"Title": "Balls to the Wall", "AlbumId": 2}),
    "the rest after a column": (
        "Album/3?select=Title,*",
        {"Title": "Nobody's", "AlbumId": 3, "ArtistId": None, "GuestId": None},
    ),
    "the one that a row references": (
        "Album/1?select=Artist!ArtistId(Name),Title",
        {"Artist": {"Name": "AC/DC"}, "Title": "Let There Be Rock"},
    ),
    "none that it references": ("Album/3?select=Artist!ArtistId(Name)", {"Artist": None}),
    "those that reference it": (
        "Album/1?select=Track(Name,TrackId)",
        {"Track": [{"Name": "Go Down", "TrackId": 1}, {"Name": "Overdose", "TrackId": 2}]},
    ),
    "no row that references it": ("Album/3?select=Track(*)", {"Track": []}),
    "three levels": (
        "Track/3?select=Name,Album(Title,Artist!ArtistId(Name))",
        {"Name": "London", "Album": {"Title": "Balls to the Wall", "Artist": {"Name": "Accept"}}},
    ),
    "there and back": (
        "Track/1?select=Album(Track(TrackId,Album(AlbumId)))",
        {"Album": {"Track": [{"TrackId": 1, "Album": {"AlbumId": 1}}, {"TrackId": 2, "Album": {"AlbumId": 1}}]}},
    ),
    "both of two keys, by other names": (
        "Album/2?select=own:Artist!ArtistId(Name),guest:Artist!GuestId(Name)",
        {"own": {"Name": "Accept"}, "guest": {"Name": "AC/DC"}},
    ),
    "two keys from the other side": (
        "Artist/1?select=Album!GuestId(AlbumId),own:Album!ArtistId(AlbumId)",
        {"Album": [{"AlbumId": 2}], "own": [{"AlbumId": 1}]},
    ),
}


@pytest.mark.slow
async def test_related_rows_stand_within_a_row(editor: httpx.AsyncClient) -> None:
    await music(editor)
    for name, (path, expected) in FOUND.items():
        found = await get(editor, path)
        assert found == expected and list(found) == list(expected), name
        table, _, rest = path.partition("/")
        key, _, query = rest.partition("?")
        column = {"Album": "AlbumId", "Track": "TrackId", "Artist": "ArtistId"}[table]
        assert await get(editor, f"{table}?{query}&{column}=eq.{key}") == [expected], name


@pytest.mark.slow
async def test_rows_of_three_levels_are_read_by_one_statement(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    await music(editor)
    for path in (
        "Track?select=Name,Album(Title,Artist!ArtistId(Name))&limit=100",
        "Artist?select=Name,Album!ArtistId(Title,Track(Name))",
        "Artist/1?select=Name,Album!ArtistId(Title,Track(Name))",
    ):
        async with statements_of(world[0]) as sent:
            await get(editor, path)
        assert len(sent) == 1 and all(f"crm__{table}" in sent[0] for table in ("Track", "Album", "Artist")), (path, sent)


async def test_a_table_that_references_itself_is_named_by_its_side(editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/Employee", json=[{"id": 1}, {"id": 2, "boss": 1}, {"id": 3, "boss": 1}])
    one = await get(editor, "Employee/2?select=Employee!boss!one(id,Employee)")
    many = await get(editor, "Employee/1?select=reports:Employee!boss!many(id),Employee")
    assert one == {"Employee": {"id": 1, "Employee": None}} and many == {"reports": [{"id": 2}, {"id": 3}], "Employee": None}


REFUSED = {
    "an unknown table": ("Album?select=Nope(Name)", "select: there is no table 'Nope' that is related to Album"),
    "a table without a key": ("Album?select=Secrets(id)", "select: there is no table 'Secrets' that is related to Album"),
    "two keys": (
        "Album?select=Artist(Name)",
        "select: Album and Artist have more than one foreign key; write Artist!ArtistId!one(...) or Artist!GuestId!one(...)",
    ),
    "two sides": ("Employee?select=x:Employee(id)", "select: Employee and Employee have more than one foreign key; write"),
    "no such key": ("Album?select=Artist!Title(Name)", "select: Album and Artist have no such foreign key; write Artist!Art"),
    "no such side": ("Album?select=Track!many!one(Name)", "select: 'Track!many!one(Name)' is not a related table"),
    "two of a name": ("Album?select=Track(Name),Track(TrackId)", "select: two fields are named Track"),
    "the name of a column": ("Employee?select=Employee,Employee!boss!one(id)", "select: two fields are named Employee"),
    "the name of a column, after it": ("Employee?select=Employee!boss!one(id),Employee", "select: two fields are named Emp"),
    "no columns": ("Album?select=Track()", "select: there is no column '' in Track"),
    "an unknown column": ("Album?select=Track(Nope)", "select: there is no column 'Nope' in Track"),
    "an open parenthesis": ("Album?select=Track(Name", "select: its parentheses are not balanced"),
    "a closed parenthesis": ("Album?select=Track)Name(", "select: its parentheses are not balanced"),
    "five levels": (
        "Track?select=Album(Track(Album(Track(Album(Title)))))",
        "select: related tables are nested deeper than 4 levels",
    ),
    "nine tables": (
        "Track?select=" + ",".join(f"a{n}:Album(Title)" for n in range(9)),
        "select: names more than 8 related tables",
    ),
    "what follows the parentheses": ("Album?select=Track(Name)x", "select: 'Track(Name)x' is not a related table"),
}


@pytest.mark.slow
async def test_each_bad_select_is_refused(editor: httpx.AsyncClient) -> None:
    await music(editor)
    for name, (path, told) in REFUSED.items():
        for url in (path, path.replace("?", "/1?")):
            answer = await editor.get(f"{DATA}/{url}")
            assert (answer.status_code, answer.json()["error"][: len(told)]) == (400, told), name


@pytest.mark.slow
async def test_a_table_that_the_reader_may_not_see_is_refused_as_an_unknown_one(world: tuple[Engine, str]) -> None:
    async with signed_in(world[1], "ed") as editor:
        await music(editor)
    async with signed_in(world[1], "rea") as reader:
        assert await get(reader, "Track/1?select=Album(Title)") == {"Album": {"Title": "Let There Be Rock"}}
        for path in (
            "Track?select=NAME(*)",
            "Track/3?select=NAME(*)",
            "Track?select=NAME!Secret(*)",
            "Album?select=Track(NAME(*))",
        ):
            told = {}
            for hidden in ("Secrets", "Unknown"):
                answer = await reader.get(f"{DATA}/{path.replace('NAME', hidden)}")
                told[hidden] = answer.status_code, answer.text.replace(hidden, "NAME")
            assert told["Secrets"] == told["Unknown"] and told["Secrets"][0] == 400, path
        answer = await reader.get(f"{DATA}/Album?select=Artist!ArtistId(Name)")
        assert answer.json()["error"] == "select: there is no table 'Artist' that is related to Album", "who may only write"
        description = (await reader.get(f"{DATA}/openapi.json")).text
        assert "Secrets" not in description.replace('"Secret"', "")


def values() -> list[dict[str, Any]]:
    """Rows of every type, of the smallest, largest and strangest values; and one of NULLs."""
    by_column: dict[str, list[Any]] = {
        "big": ["0", "9223372036854775807", "-9223372036854775808", "9007199254740993"],
        "price": ["0", "-0.0001", "99999999999.9999", "1.5", "12345678901.2345", "0.1000"],
        "ratio": [0.0, -0.0, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5e-7, 1e16, 2.2250738585072014e-308, 3],
        "truth": [True, False],
        "day": ["0001-01-01", "2026-02-28", "9999-12-31"],
        "moment": ["0001-01-01T00:00:00Z", "2026-01-31T12:00:00.123456Z", "9999-12-31T23:59:59.5Z"],
        "extra": [1, 1.0, "x", "0123", [1.0, -5, {"a": 1e3}], {"ü": [None, True, "\u2028\\\""]}, 12345678901234567890, False, ""],
        "picture": ["", "AAE=", base64.b64encode(bytes(range(256))).decode()],
        "token": ["123e4567-e89b-42d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
        "note": ["", "line\nline\r\t'quoted' \"too\" \\ \\u0041", "ü😀\u2028", "null", "[1]", "a" * 5000],
    }  # fmt: skip
    longest = max(map(len, by_column.values()))
    rows = [{name: of[number % len(of)] for name, of in by_column.items()} for number in range(longest)]
    rows.append(dict.fromkeys(by_column))
    return [{"region": "r,\"ü'", "code": str(2**62 + number), **row} for number, row in enumerate(rows)]


@pytest.mark.slow
async def test_every_value_is_the_same_within_another_row_as_in_its_own(editor: httpx.AsyncClient) -> None:
    given = values()
    assert (await editor.post(f"{DATA}/places", json=given)).status_code == 201
    visits = [{"region": row["region"], "code": row["code"]} for row in given]
    assert (await editor.post(f"{DATA}/visits", json=visits)).status_code == 201
    plain = orjson.loads((await editor.get(f"{DATA}/places?order=code")).content)
    to_one = [row["places"] for row in await get(editor, "visits?select=places(*)&order=id")]
    back = [row["visits"][0]["places"] for row in await get(editor, "places?select=visits(places(*))&order=code")]
    assert repr(to_one) == repr(plain) and repr(back) == repr(plain)
    (wide,) = [await get(editor, f"places/{'r%2C%22%C3%BC%27'},{2**62}?select=wide129,visits(id),price")]
    assert wide == {"wide129": None, "visits": [{"id": 1}], "price": "0.0000"}


@pytest.mark.slow
async def test_values_that_only_a_database_can_make_are_the_same(world: tuple[Engine, str], editor: httpx.AsyncClient) -> None:
    await editor.post(f"{DATA}/places", json={"region": "r", "code": "1", "ratio": 1.5})
    await editor.post(f"{DATA}/visits", json={"region": "r", "code": "1"})
    for spelled in ("9e999", "-9e999", "nan"):
        on_server = {"9e999": "'Infinity'", "-9e999": "'-Infinity'", "nan": "'NaN'"}[spelled]

        def put(connection: sa.Connection, sqlite: str = spelled, server: str = on_server) -> None:
            value = sqlite.replace("nan", "NULL") if connection.dialect.name == "sqlite" else server
            connection.exec_driver_sql(f"UPDATE crm__places SET ratio = {value}")

        await world[0]._transactions.write(put)
        plain = await get(editor, "places?select=ratio,day")
        assert await get(editor, "visits?select=places(ratio,day)") == [{"places": plain[0]}], spelled


@pytest.mark.slow
async def test_an_array_ends_at_its_limit_in_the_order_of_the_key(editor: httpx.AsyncClient) -> None:
    await music(editor)
    tracks = [{"Name": f"{number}", "AlbumId": 3} for number in range(MOST_RELATED + 5)]
    await editor.post(f"{DATA}/Track", json=tracks)
    found = (await get(editor, "Album/3?select=Track(Name)"))["Track"]
    assert [one["Name"] for one in found] == [str(number) for number in range(MOST_RELATED)]


@pytest.mark.slow
async def test_filters_orders_and_pages_hold_with_related_rows(editor: httpx.AsyncClient) -> None:
    await music(editor)
    await editor.post(f"{DATA}/Track", json=[{"Name": f"{number % 3}", "AlbumId": 1 + number % 2} for number in range(20)])
    query = "Track?select=Album(Title),TrackId&order=Name.desc&TrackId=gt.2&limit=4"
    whole = await get(editor, query.replace("limit=4", "limit=1000"))
    paged, url = [], f"{DATA}/{query}"
    while url:
        page = await editor.get(url)
        paged += page.json()
        url = page.links.get("next", {}).get("url", "")
    assert (
        paged == whole
        and len(whole) == 21
        and {row["Album"]["Title"] for row in whole} == {"Let There Be Rock", "Balls to the Wall"}
    )


@pytest.mark.slow
async def test_an_etag_is_of_the_related_rows_too_and_still_guards_a_change(editor: httpx.AsyncClient) -> None:
    await music(editor)
    path = f"{DATA}/Album/1?select=Title,Track(Name)"
    first = await editor.get(path)
    assert (await editor.get(path, headers={"If-None-Match": first.headers["etag"]})).status_code == 304
    await editor.patch(f"{DATA}/Track/1", json={"Name": "Dog Eat Dog"})
    second = await editor.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert second.status_code == 200 and second.json()["Track"][0]["Name"] == "Dog Eat Dog"
    changed = await editor.patch(f"{DATA}/Album/1", json={"Title": "x"}, headers={"If-Match": second.headers["etag"]})
    assert changed.status_code == 200
    late = await editor.patch(f"{DATA}/Album/1", json={"Title": "y"}, headers={"If-Match": second.headers["etag"]})
    assert late.status_code == 412


@pytest.mark.slow
async def test_related_rows_that_are_too_large_are_refused(editor: httpx.AsyncClient) -> None:
    await music(editor)
    for _ in range(3):
        assert (await editor.post(f"{DATA}/Track", json={"Name": "x" * (3 << 20), "AlbumId": 3})).status_code == 201
    answer = await editor.get(f"{DATA}/Album?select=Track(Name)")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "select: the related rows of Track are larger than 8 MiB: select less of them",
    )
