"""The measurable house rules: sizes, names, docstrings, purity, and a tree without anything of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.support.parsed_code import parsed, text_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "tenantry"
MODULES = sorted(PACKAGE.rglob("*.py"))
DECISIONS = sorted(PACKAGE.glob("kinds/*/decide.py"))
OF_PASSES = [PACKAGE / "runtime" / "operations" / "deciding.py"]
PURE = frozenset(
    {"__future__", "collections", "dataclasses", "datetime", "enum", "functools", "hashlib", "itertools", "re", "typing", "uuid"}
)
"""The modules that a decision may import besides our own values."""
SAME_IN_EVERY_FOLDER = {"Observed": "each kind's decide.py decides by what its observe.py observed"}
"""Names of classes that several modules define, with the reason."""
RETIRED = {
    "seat": "PassPorts",
    "desk": "WriteContext",
    "shelf": "PackageFolder",
    "steering": "reconcile_controls, reconcile_commands",
    "patience": "slow_clients",
}
"""Metaphors that were names once, with what the field calls it."""
IN_ORDER = 5
"""Arguments of a call in bootstrap that need no name."""
# The path of somebody's folder, as it gets into a file by accident; a container's own /tmp or /var is none.
MACHINE_PATH = re.compile(r"(?<![\w.$~}])/(?:work|home|Users|root)/[\w.]")
REGISTRY = re.compile(r"https?://[\w.-]*(?:pypi|proxy\.golang|artifactory|nexus|jfrog)[\w.-]*", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(module: Path) -> Iterator[Function]:
    return (node for node in ast.walk(parsed(module)) if isinstance(node, Function))


def lines_of(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def named(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[str, str]]:
    """Tracked text files, by name."""
    for path in tracked():
        try:
            yield str(path.relative_to(ROOT)), path.read_text("utf-8")
        except UnicodeDecodeError:
            continue


def test_a_module_has_at_most_400_lines() -> None:
    assert {named(one): n for one in MODULES if (n := len(one.read_text("utf-8").splitlines())) > 400} == {}


@pytest.mark.slow
def test_a_function_has_at_most_40_lines() -> None:
    long = {f"{named(one)}: {each.name}": lines_of(each) for one in MODULES for each in functions_of(one) if lines_of(each) > 40}
    assert long == {}


def test_a_folder_has_at_most_16_modules() -> None:
    folders = Counter(one.parent for one in MODULES)
    assert {named(folder): n for folder, n in folders.items() if n > 16} == {}


def test_a_class_name_means_one_thing() -> None:
    """A name that two modules define is looked up twice. Their roles are the same in every folder: only those share names."""
    classes = Counter(name for one in MODULES for name in re.findall(r"^class ([^\W_]\w*)", text_of(one), re.MULTILINE))
    assert {name for name, n in classes.items() if n > 1} == set(SAME_IN_EVERY_FOLDER)


def test_unit_tests_mirror_the_folders_of_the_product() -> None:
    unit = ROOT / "tests" / "unit"
    of_others = {"bench", "campaigns", "chart", "ci", "support"}
    folders = {str(one.parent.relative_to(unit)) for one in unit.rglob("test_*.py")}
    stale = {one for one in folders if one.partition("/")[0] not in of_others and not (PACKAGE / one).is_dir()}
    assert stale == set()


@pytest.mark.slow
def test_functions_are_short() -> None:
    lengths = sorted(lines_of(each) for one in MODULES for each in functions_of(one))
    assert median(lengths) <= 8
    assert lengths[len(lengths) * 9 // 10] <= 30


def test_names_are_guessed_in_one_place() -> None:
    guessing = {named(module) for module in MODULES if "get_close_matches" in module.read_text("utf-8")}
    assert guessing == {"model/wording.py"}, "use did_you_mean or nearest of model/wording.py"


def test_the_namespace_of_a_tenant_is_read_in_one_place() -> None:
    """It decides who owns an object: `Tenant.bound_namespace` reads it, `bound_namespace` of a document, and its own pass."""
    possible = (one for one in MODULES if "namespace" in text_of(one) and "status" in text_of(one))
    reading = {named(module) for module in possible if any(map(_reads_a_binding, ast.walk(parsed(module))))}
    assert reading == {"kinds/tenant/decide.py", "kinds/tenant/spec.py", "model/documents.py"}, "use bound_namespace"


def _reads_a_binding(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Attribute(attr="status"), attr="namespace"):
            return True
        case ast.Call(func=ast.Attribute(value=read, attr="get"), args=[ast.Constant(value="namespace"), *_]):
            return "status" in ast.unparse(read)
        case ast.Subscript(value=read, slice=ast.Constant(value="namespace")):
            return "status" in ast.unparse(read)
    return False


def test_one_function_each_names_the_owner_of_something() -> None:
    """A reader of a call must know the rule: `owner_of` is the Tenant of a namespace, and `tenant_of` the same in a pass."""
    names = ("owner_of", "tenant_of", "bindings")
    found = [
        (function.name.lstrip("_"), named(module))
        for module in MODULES
        if any(name in text_of(module) for name in names)
        for function in functions_of(module)
        if function.name.lstrip("_") in names
    ]
    assert sorted(found) == [(name, "kinds/tenancy.py") for name in ("bindings", "owner_of", "tenant_of")]


def test_no_metaphor_is_a_name() -> None:
    assert [found for one in MODULES for found in _retired(one)] == []


def _retired(module: Path) -> Iterator[str]:
    if not any(old in f"{module.stem} {text_of(module)}".lower() for old in RETIRED):
        return
    names = {module.stem} | {name for node in ast.walk(parsed(module)) for name in _names_of(node)}
    for name in sorted(names):
        word = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        yield from (f"{named(module)}: {name}: say {better}" for old, better in RETIRED.items() if old in word.split("_"))


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
            yield name


def test_bootstrap_names_what_it_passes() -> None:
    """It composes with dozens of parts: a reader must see which part goes where. The arguments of a thread have no names."""
    in_order = {
        f"{named(one)}:{node.lineno}: {ast.unparse(node.func)}": len(node.args)
        for one in sorted((PACKAGE / "bootstrap").rglob("*.py"))
        for node in ast.walk(parsed(one))
        if isinstance(node, ast.Call) and ast.unparse(node.func) != "asyncio.to_thread"
    }
    assert {call: n for call, n in in_order.items() if n > IN_ORDER} == {}


def test_nothing_waits_by_wait_for() -> None:
    """In Python 3.11 it returns the result, and forgets the cancel, when both come in one step of the loop."""
    assert {named(one) for one in MODULES if "asyncio.wait_for(" in one.read_text("utf-8")} == set(), "use asyncio.timeout"


def test_a_write_is_planned_in_one_place() -> None:
    """Every door of the facade answers `?dryRun=true` and holds `If-Plan` by the same call."""
    asking = {
        named(one) for one in MODULES if re.search(r"facade\.plan\(|raise PlanAnswered|check_plan\(", one.read_text("utf-8"))
    }
    # A backup writes nothing: its plan is always empty.
    assert asking - {"api/writing/preconditions.py", "api/platform/backups.py"} == {"api/facade_context.py"}


@pytest.mark.slow
def test_no_class_only_forwards() -> None:
    """A class of many methods that each call one of the same arguments is a second name for somebody else's work."""
    classes = ((module, node) for module in MODULES for node in ast.walk(parsed(module)) if isinstance(node, ast.ClassDef))
    methods = {
        f"{named(module)}: {node.name}": [forwards(each) for each in node.body if isinstance(each, Function)]
        for module, node in classes
    }
    assert {name: len(all_) for name, all_ in methods.items() if sum(all_) > 6 and sum(all_) * 2 > len(all_)} == {}


def forwards(method: Function) -> bool:
    """Return True if a method only calls a method of an attribute with its own parameters."""
    match [each for each in method.body if not is_docstring(each)]:
        case [ast.Return(value=called) | ast.Expr(value=called)]:
            called = called.value if isinstance(called, ast.Await) else called
        case _:
            return False
    match called:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")))):
            given = [*called.args, *(each.value for each in called.keywords)]
            return all(isinstance(each, ast.Name | ast.Constant) for each in given)
        case _:
            return False


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def test_no_module_is_a_drawer() -> None:
    assert [named(one) for one in MODULES if one.stem in ("utils", "helpers", "common", "errors", "misc", "base")] == []


def test_what_is_public_tells_what_it_is() -> None:
    assert [name for one in MODULES for name in _untold(one)] == []


def _untold(module: Path) -> Iterator[str]:
    """Public modules, classes and functions without a docstring. Methods of implementations need none: their Protocol has it."""
    tree = parsed(module)
    if tree.body and not ast.get_docstring(tree):
        yield named(module)
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{named(module)}: {node.name}"


def test_a_package_s_front_door_holds_no_code() -> None:
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    doors = [one for one in MODULES if one.name == "__init__.py"]
    assert [named(one) for one in doors if not all(isinstance(node, allowed) for node in parsed(one).body)] == []


@pytest.mark.parametrize("module", [*DECISIONS, *OF_PASSES], ids=lambda path: path.parent.name)
def test_a_decision_is_pure(module: Path) -> None:
    tree = parsed(module)
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [type(node).__name__ for node in ast.walk(tree) if isinstance(node, waits)] == []
    assert {name for name in _imported(tree) if name.partition(".")[0] not in PURE | {"tenantry"}} == set()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called & {"open", "print", "input", "exec", "eval", "__import__"} == set()
    clocks = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert clocks & {"now", "utcnow", "today", "uuid1", "uuid4"} == set()


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_every_kind_that_is_reconciled_has_the_same_rooms() -> None:
    for decision in DECISIONS:
        assert {"spec.py", "decide.py", "observe.py"} <= {one.name for one in decision.parent.iterdir()}, decision.parent.name


def test_the_source_root_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


@pytest.mark.slow
def test_no_file_tells_of_somebody_s_machine() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := MACHINE_PATH.search(text))] == []


def test_callers_are_told_messages_without_paths() -> None:
    """Callers get `told` of a Halt. The message of its verdict may name a file of the server."""
    edges = ("rest", "api", "console", "adapters/local/hosting.py")
    places = tuple(f"operator/tenantry/{edge}" for edge in edges)
    assert [name for name, text in texts() if str(name).startswith(places) and re.search(r"\w\.verdict\.message", text)] == []


def test_no_file_names_a_package_registry() -> None:
    assert [(name, found[0]) for name, text in texts() if (found := REGISTRY.search(text))] == []


@pytest.mark.slow
def test_the_layers_hold() -> None:
    linted = subprocess.run(
        ["lint-imports"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "operator"), "PATH": str(Path(sys.executable).parent), "COLUMNS": "200"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert linted.returncode == 0, linted.stdout
