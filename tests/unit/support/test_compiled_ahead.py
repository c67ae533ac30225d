"""Modules are compiled before the workers of a run start."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from hypothesis import configuration
from hypothesis.internal import charmap

from tests.support import compiled_ahead
from tests.support.compiled_ahead import code_of, compile_missing, prepare_hypothesis

TEXT = "def test_one():\n    assert 1 == 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deeper").mkdir()
    for name in ("test_one.py", "one.py", "deeper/conftest.py"):
        (tmp_path / name).write_text(TEXT)
    return tmp_path


def test_each_module_has_the_code_that_its_importer_looks_for(folder: Path, pytestconfig: pytest.Config) -> None:
    assert compile_missing([folder], pytestconfig) == 3
    assert Path(importlib.util.cache_from_source(str(folder / "one.py"))).exists()
    for test in (folder / "test_one.py", folder / "deeper" / "conftest.py"):
        code = rewrite._read_pyc(test, code_of(test))
        assert code is not None
        assert "@pytest_ar" in code.co_names, "its assertions are pytest's"


def test_what_has_been_compiled_is_left_alone(folder: Path, pytestconfig: pytest.Config) -> None:
    compile_missing([folder], pytestconfig)
    assert compile_missing([folder], pytestconfig) == 0


def test_who_imports_a_module_with_an_error_sees_it(folder: Path, pytestconfig: pytest.Config) -> None:
    for name in ("test_one.py", "one.py"):
        (folder / name).write_text("def")
    assert compile_missing([folder], pytestconfig) == 3
    assert not code_of(folder / "test_one.py").exists()
    assert not code_of(folder / "one.py").exists()


@pytest.mark.slow
def test_the_files_of_hypothesis_are_made_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this worker may have them in memory.
    monkeypatch.setattr(charmap, "_charmap", None)
    charmap.intervals_from_codec.cache_clear()
    home = configuration.storage_directory().path
    configuration.set_hypothesis_home_dir(tmp_path)
    try:
        process = prepare_hypothesis()
        process.join()
        assert (process.exitcode, charmap.charmap_file().exists()) == (0, True)
        assert charmap.charmap_file().is_relative_to(tmp_path)
        assert charmap.charmap_file("codec-v2-utf-8").exists()
        source = Path(compiled_ahead.ROOT / "operator/tenantry/model/facts.py").read_bytes()
        assert (tmp_path / "constants" / hashlib.sha1(source).hexdigest()[:16]).exists()
    finally:
        configuration.set_hypothesis_home_dir(home)
