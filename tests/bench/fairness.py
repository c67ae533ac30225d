"""P25: what one tenant's users notice of another tenant's attack, on one machine and in one process.

The platform, the users and each attack are processes of their own. Quiet phases and phases under attack take turns.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import orjson

from tenantry.rest.plan_bundle import MOST_DOCUMENTS
from tests.bench.row import Row, Scale, told

SECONDS = 10.0
"""Of a phase. In two rounds a request of 25 a second is sent 500 times, so that its p99 is the fifth slowest."""
ROUNDS = 2
"""Of all attacks. Chosen attacks have one for each repetition: the p99 of 80 plans is that of the slowest, by chance."""
NOTHING = "nothing"
"""The name of the control without an attack: by how much two quiet phases differ."""
ROWS = 20_000
RATIO, DIFFERENCE_S, MEMORY = 3.0, 0.25, 1 << 30
PASSWORD = "a long password"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
NDJSON = "application/x-ndjson"
LINES, ARRAY = 10_000, 1_000
"""Rows of a request with lines, and of one with an array."""
LISTENERS = 1_000
MANIFEST = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: 1.0.0
tables:
  - name: notes
    primaryKey: [id]
    columns: [{name: id, type: integer, generated: true}, {name: note, type: text}, {name: extra, type: json}]
  - name: checked
    primaryKey: [id]
    columns: [{name: id, type: integer, generated: true}, {name: v, type: text}]
    checks:
      - {name: joined, expression: "length(v || v) > 0 AND v NOT LIKE '%b%c%d%e%f%'"}
      - {name: lower, expression: "length(lower(v)) > 0 AND upper(v) <> ''"}
roles: {editor: {notes: [read, write], checked: [read, write]}}
"""
Request = dict[str, Any]


@dataclass(frozen=True)
class Attack:
    """Requests in turn, over so many connections at once. statuses: one of them is that of its first answer.

    idle: connections stay open and unused after it. slow: answers are read slowly. listeners: so many more connections, which
    have the answer without end to `followed` before the requests begin.
    """

    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    idle: bool = False
    statuses: tuple[int, ...] = (200,)
    slow: bool = False
    listeners: int = 0
    followed: Request = field(default_factory=dict)


@dataclass
class Taken:
    """Seconds of each request, by its name."""

    by_name: dict[str, list[float]] = field(default_factory=dict)

    def add(self, more: Mapping[str, Sequence[float]]) -> None:
        for name, seconds in more.items():
            self.by_name.setdefault(name, []).extend(seconds)

    def p99(self, name: str) -> float:
        seconds = sorted(self.by_name[name])
        return seconds[int(len(seconds) * 0.99)]


@dataclass
class UnderAttack(Taken):
    """The same in phases under attack. attack_rates: the attack's requests a second, by phase; peak: bytes of the platform."""

    attack_rates: list[float] = field(default_factory=list)
    peak: int = 0


@dataclass(frozen=True)
class Tenant:
    """A tenant of the platform. token: of its ADMIN at the facade; session: of a user of its engine."""

    port: int
    name: str
    token: str
    environment: str
    session: str
    operation: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def engine(self) -> str:
        """The path of its engine."""
        return f"/e/{self.name}/dev"

    @property
    def data(self) -> str:
        return f"{self.engine}/api/v1/data/crm/notes"

    @property
    def signed_in(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.session}"}

    def users(self) -> dict[str, Request]:
        """Requests of its users, with their rates a second."""
        credentials = urlencode({"username": "ed", "password": PASSWORD})
        edit = json.dumps({"name": "Another name"})
        plan = f"/api/v1/environments/{self.environment}?dryRun=true"
        sign_in = f"{self.engine}/api/v1/auth/token"
        return {
            "GET": {"method": "GET", "path": "/api/v1/environments", "headers": self.bearer, "rate": 25},
            "data GET": {"method": "GET", "path": f"{self.data}/1", "headers": self.signed_in, "rate": 25},
            "sign-in": {"method": "POST", "path": sign_in, "headers": FORM, "body": credentials, "rate": 4},
            "plan": {"method": "PUT", "path": plan, "headers": self.bearer | JSON, "body": edit, "rate": 4},
        }  # fmt: skip


def attacks(by: Tenant, documents: int = MOST_DOCUMENTS, listeners: int = LISTENERS) -> dict[str, Attack]:
    """Every attack of the fairness table, by name. documents: of a large plan, which is ended after a minute. listeners: to one
    table."""
    users = by.users()
    like = urlencode([("note", f"like.*{letter}*{letter}*{letter}*{letter}*z") for letter in "abcdefghijklmnop"])
    basic = base64.b64encode(f"ed:{PASSWORD}".encode()).decode()
    by_password = {"method": "GET", "path": f"{by.data}/1", "headers": {"Authorization": f"Basic {basic}"}}
    insert = {"method": "POST", "path": by.data, "headers": by.signed_in | JSON}
    checked = insert | {"path": by.data.replace("notes", "checked")}
    nested = insert | {"before": '{"extra":[', "body": "[],", "times": 49_000, "after": "[]]}"}
    upload = f"/engines/{by.environment}/api/v1/admin/apps/upload"
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    part = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.tapp"\r\n\r\n'
    spoiled = {"method": "POST", "path": upload, "headers": by.bearer | multipart, "before": part, "after": "\r\n--x--\r\n"}
    events = by.bearer | {"Accept": "text/event-stream"}
    return {
        NOTHING: Attack(),
        "reads": Attack([users["GET"]], 16),
        "writes": Attack([insert | {"body": '{"note": "a note"}'}], 16, statuses=(201,)),
        "lists": Attack([{"method": "GET", "path": f"{by.data}?limit=100", "headers": by.signed_in}], 16),
        "LIKE": Attack([{"method": "GET", "path": f"{by.data}?{like}", "headers": by.signed_in}], 8),
        "checks": Attack([checked | {"before": '{"v":"', "body": "a", "times": 1_000_000, "after": '"}'}], 4, statuses=(201,)),
        "large bodies": Attack(
            [insert | {"before": '{"extra":[', "body": "1,", "times": 190_000, "after": "1]}"}], 4, statuses=(201,)
        ),
        "plans": Attack([_plan(by, 200)], 4),
        "large plans": Attack([_plan(by, documents)], 2, statuses=(200, 503)),
        "sign-ins": Attack([users["sign-in"]], 8),
        "Basic": Attack([by_password], 8),
        "json": Attack([nested], 4, statuses=(201,)),
        "uploads": Attack([spoiled | {"body": "x" * 1024, "times": 16 * 1024}], 4, statuses=(400,)),
        "SSE": Attack([{"method": "GET", "path": f"/api/v1/operations/{by.operation}/logs", "headers": events}], 64),
        # Of so many at once, those that come while all others wait for their answers are more than an address may have.
        "keep-alives": Attack([{"method": "GET", "path": "/healthz"}], 1000, idle=True, statuses=(200, 503)),
        "dry runs": Attack([users["plan"]], 8),
        "manifests": Attack(_manifests(by), 4),
        "NDJSON": Attack([_lines(by)], 4, statuses=(201,)),
        "arrays": Attack([insert | {"before": "[{}", "body": f",{_ROW}", "times": ARRAY - 1, "after": "]"}], 4, statuses=(201,)),
        "slow exports": Attack([_export(by)], 16, slow=True),
        "listeners": Attack(
            [insert | {"body": _ROW}],
            4,
            statuses=(201,),
            listeners=listeners,
            followed={"method": "GET", "path": f"{by.data}/changes", "headers": by.signed_in},
        ),
    }


_ROW = '{"note":"a note"}'


def _lines(by: Tenant) -> Request:
    """An insert of many rows, one on each line."""
    headers = by.signed_in | {"Content-Type": NDJSON}
    return {"method": "POST", "path": by.data, "headers": headers, "body": f"{_ROW}\n", "times": LINES}


def _export(by: Tenant) -> Request:
    """All rows of a table, in parts."""
    headers = by.signed_in | {"Accept": NDJSON, "Connection": "close"}
    return {"method": "GET", "path": by.data, "headers": headers}


def measure(scale: Scale) -> Sequence[Row]:
    """A row for each attack: of its four figures the one that is nearest to a gate, and the others beside it."""
    with platform(scale.folder / "P25") as place:
        return _measured(scale, place, place)


def measure_apart(scale: Scale) -> Sequence[Row]:
    """The same attacks on another process: what the neighbours notice of them because the machine is the same."""
    with platform(scale.folder / "P25-theirs") as theirs, platform(scale.folder / "P25-ours") as ours:
        rows = _measured(scale, theirs, ours)
    return [replace(row, work=f"{row.work}, on another process", gate=None, held=True) for row in rows]


def _measured(scale: Scale, attacked: Place, served: Place) -> Sequence[Row]:
    """The rows. attacked, served: the platforms of the attacker and of the users."""
    attacker = furnished(attacked[1], "attacker", scale.of(ROWS))
    neighbour = furnished(served[1], "neighbour", scale.of(ROWS))
    every = attacks(attacker, scale.of(MOST_DOCUMENTS), scale.of(LISTENERS))
    quiet, under = compared(scale, attacked[0].pid, (neighbour.port, neighbour.users()), (attacker.port, every))
    return [row_of(name, quiet, taken) for name, taken in under.items()]


def compared(
    scale: Scale, pid: int, requests: tuple[int, Mapping[str, Request]], every: tuple[int, Mapping[str, Attack]]
) -> tuple[Taken, dict[str, UnderAttack]]:
    """Quiet phases and attacks by turns. pid: of the process that is attacked; requests, every: after their ports."""
    quiet = Taken()
    under: dict[str, UnderAttack] = {}
    seconds = max(0.5, SECONDS * scale.share)
    chosen = {name: each for name, each in every[1].items() if not scale.only or name in scale.only}
    rounds = scale.repetitions if scale.only else min(ROUNDS, scale.repetitions)
    with _client("users", {"port": requests[0], "requests": requests[1]}) as users:
        _phase(users, seconds)
        for _ in range(rounds):
            for name, each in chosen.items():
                quiet.add(_phase(users, seconds))
                taken = under.setdefault(name, UnderAttack())
                with _peak(pid) as peak, under_attack(every[0], name, each) as answered:
                    before = answered()
                    taken.add(_phase(users, seconds))
                    taken.attack_rates.append((answered() - before) / seconds)
                taken.peak = max(taken.peak, peak())
    return quiet, under


def row_of(attack: str, quiet: Taken, under: UnderAttack, id_: str = "P25", most: float = RATIO) -> Row:
    """Return the row of an attack. most: the greatest ratio that is allowed."""
    ratios = {name: under.p99(name) / quiet.p99(name) for name in under.by_name}
    more = {name: under.p99(name) - quiet.p99(name) for name in under.by_name}
    worst = max(ratios, key=lambda name: max(ratios[name] / most, more[name] / DIFFERENCE_S))
    held = max(more.values()) <= DIFFERENCE_S and under.peak <= MEMORY
    beside = {name: _told(quiet.p99(name), under.p99(name)) for name in ratios}
    figures = (told(under.p99(worst)), told(quiet.p99(worst)))
    spread = (min(ratios.values()), max(ratios.values()))
    rate = f"{statistics.mean(under.attack_rates):.0f} requests/s"
    load = f"{os.getloadavg()[0]:.1f}"
    more_beside = {"attack": rate, "peak memory": f"{under.peak >> 20} MiB", "load": load}
    work = f"p99 of another tenant's {worst} under {attack}"
    return Row(id_, work, "quiet", max(ratios.values()), spread, "lower", most, figures, beside | more_beside, held)


def _told(before_s: float, under_s: float) -> str:
    return f"{told(before_s)} to {told(under_s)} ({under_s / before_s:.1f}x, {(under_s - before_s) * 1000:+.0f} ms)"


Place = tuple[subprocess.Popen[str], dict[str, Any]]


@contextmanager
def platform(folder: Path) -> Iterator[Place]:
    """The server's process, and the port, tokens and environments that it prints."""
    with _process("tests.bench.fair_server", str(folder)) as server:
        yield server, json.loads(_line(server))


def furnished(started: Mapping[str, Any], name: str, rows: int) -> Tenant:
    """A tenant whose environment has an app, a user and rows."""
    port, id_, token = started["port"], started["environments"][name], started["tokens"][name]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        admin = {"Authorization": f"Bearer {token}"}
        at = f"/engines/{id_}/api/v1/admin"
        client.post(f"{at}/apps/publish", headers=admin, files={"file": ("crm.tapp", packed(MANIFEST))}).raise_for_status()
        identity = {"username": "ed", "password": PASSWORD, "roles": [{"app": "crm", "role": "editor"}]}
        client.post(f"{at}/identities", headers=admin, json=identity).raise_for_status()
        form = {"username": "ed", "password": PASSWORD}
        session = client.post(f"/e/{name}/dev/api/v1/auth/token", data=form).raise_for_status().json()["access_token"]
        operation = client.get("/api/v1/operations", headers=admin).raise_for_status().json()[0]["id"]
        tenant = Tenant(port, name, token, id_, session, operation)
        for start in range(0, rows, 1000):
            some = [{"note": f"{number} " + "abcdefghijklmnop" * 8} for number in range(start, min(rows, start + 1000))]
            client.post(tenant.data, headers=tenant.signed_in, json=some).raise_for_status()
    return tenant


def packed(manifest: str) -> bytes:
    """A package of that app.yaml."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(zipfile.ZipInfo("app.yaml"), manifest)
    return raw.getvalue()


def _plan(by: Tenant, count: int) -> Request:
    """A source of so many Identities."""
    secret = {"name": "none", "key": "password"}

    def document(number: int) -> dict[str, Any]:
        metadata = {"name": f"user-{number}", "namespace": f"tenant-{by.name}"}
        spec = {"environment": "dev", "username": f"user-{number}", "passwordSecretRef": secret}
        return {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Identity", "metadata": metadata, "spec": spec}

    documents = [["all.yaml", number, document(number)] for number in range(count)]
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr(zipfile.ZipInfo("source.json"), orjson.dumps({"name": "all", "commit": "", "documents": documents}))
    body = raw.getvalue().decode("latin-1")
    return {"method": "POST", "path": "/api/v1/plans", "headers": by.bearer, "latin": body}


def _manifests(by: Tenant) -> list[Request]:
    """Packages whose app.yaml has 60 tables of 100 columns, which are checked and not kept."""
    return [_manifest(by, number) for number in range(40)]


def _manifest(by: Tenant, number: int) -> Request:
    columns = ", ".join(f"{{name: column_{number}, type: text}}" for number in range(100))
    tables = "".join(
        f"  - {{name: table_{each}, primaryKey: [id], columns: [{{name: id, type: integer}}, {columns}]}}\n" for each in range(60)
    )
    raw = packed(f"apiVersion: tenantry.dev/app/v1\nid: wide\nname: Wide\nversion: 1.0.{number}\ntables:\n{tables}")
    path = f"/api/v1/packages/{hashlib.sha256(raw).hexdigest()}?dryRun=true"
    return {"method": "PUT", "path": path, "headers": by.bearer, "latin": raw.decode("latin-1")}


def _phase(users: subprocess.Popen[str], seconds: float) -> dict[str, list[float]]:
    assert users.stdin is not None
    users.stdin.write(f"{seconds}\n")
    users.stdin.flush()
    taken: dict[str, list[float]] = json.loads(_line(users))
    return taken


@contextmanager
def under_attack(port: int, name: str, attack: Attack) -> Iterator[Callable[[], int]]:
    """From its first answer on. Gives how many requests were answered so far."""
    if not attack.requests:
        yield lambda: 0
        return
    with _client("attack", {"port": port, **asdict(attack)}) as client:
        status = int(_line(client))
        assert status in attack.statuses, (name, status)

        def answered() -> int:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
            return int(_line(client))

        yield answered


@contextmanager
def _peak(pid: int) -> Iterator[Any]:
    """Gives the greatest memory (bytes) of a process since the block began."""
    about = Path("/proc") / str(pid)
    about.joinpath("clear_refs").write_text("5")

    def peak() -> int:
        line = next(line for line in about.joinpath("status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10

    yield peak


@contextmanager
def _client(role: str, given: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    with _process("tests.bench.fair_clients", role) as client:
        assert client.stdin is not None
        client.stdin.write(json.dumps(given) + "\n")
        client.stdin.flush()
        yield client


@contextmanager
def _process(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"process {process.pid} ended"
    return line
