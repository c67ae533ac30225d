"""A port that a test gives to a server stays free until the server binds it."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

from tests.support.parsed_code import parsed, text_of
from tests.support.ports import chosen_by_the_kernel, free_port, share_of

TESTS = Path(__file__).parents[2]
PROBES = {
    "bench/fair_clients.py",  # a client's own
    "scenario/serving.py",  # listens on it from then on
    "unit/adapters/kubernetes/client/test_http.py",  # nobody listens, and nobody shall
}


def test_ports_differ_and_nobody_is_given_them_by_chance() -> None:
    ports = [free_port() for _ in range(50)]
    assert len({*ports}) == 50
    assert not {*ports} & {*chosen_by_the_kernel()}


def test_the_workers_of_a_run_have_ports_of_their_own() -> None:
    shares = [share_of({"PYTEST_XDIST_WORKER": f"gw{n}", "PYTEST_XDIST_WORKER_COUNT": "3"}) for n in range(3)]
    assert sorted(port for share in shares for port in share) == [*share_of({})]


def test_a_port_that_somebody_holds_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as held:
        assert held.getsockname()[1] not in [free_port() for _ in range(50)]


def test_no_test_gives_a_server_a_port_that_the_kernel_chose_for_a_probe() -> None:
    binding = [path for path in TESTS.rglob("*.py") if ".bind((" in text_of(path)]
    found = {str(path.relative_to(TESTS)) for path in binding if any(map(_binds_port_zero, ast.walk(parsed(path))))}
    assert found == {*PROBES}


def _binds_port_zero(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="bind"), args=[ast.Tuple(elts=[_, ast.Constant(value=0)])]):
            return True
    return False
