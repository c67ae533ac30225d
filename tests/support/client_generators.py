"""Generators of clients from an OpenAPI document, installed once. Each is a command of its own, apart from our packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.built_programs import MissingProgram, built_once

PYTHON = "openapi-python-client==0.29.1"
TYPESCRIPT = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@20.19.0")


def python_client(document: Path, folder: Path) -> None:
    """Generate the package of a Python client into a folder. Raises MissingProgram."""
    tool = built_once("clients", PYTHON, _install_python, "there is no Python", needs=sys.executable)
    command = (str(tool / "bin/openapi-python-client"), "generate", "--path", str(document), "--output-path", str(folder))
    _generate(*command, "--meta", "none", "--overwrite", cwd=tool)


def typescript_client(document: Path, program: Path) -> Path:
    """Compile a TypeScript program with the types of a document, and return the JavaScript file. Raises MissingProgram.

    The program imports its types from "./schema.js". It is compiled strictly.
    """
    name = "-".join(each.replace("/", "_") for each in TYPESCRIPT)
    tools = built_once("clients", name, _install_typescript, "there is no Node.js with npm", needs="npm")
    folder = program.parent
    (folder / "node_modules").symlink_to(tools / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    _generate(str(tools / "node_modules/.bin/openapi-typescript"), str(document), "-o", "schema.ts", cwd=folder)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node")
    _generate(str(tools / "node_modules/.bin/tsc"), *options, program.name, "schema.ts", cwd=folder)
    return program.with_suffix(".js")


def _install_python(folder: Path) -> None:
    _install(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    pip = (str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _install(*pip, PYTHON, cwd=folder)
    # Its scripts name the folder in which they were made, which is renamed.
    script = folder / "bin/openapi-python-client"
    script.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m openapi_python_client "$@"\n')


def _install_typescript(folder: Path) -> None:
    folder.mkdir()
    _install("npm", "install", "--silent", "--no-save", "--no-package-lock", *TYPESCRIPT, cwd=folder)


def _install(*command: str, cwd: Path) -> None:
    done = _run(*command, cwd=cwd)
    if done.returncode:
        raise MissingProgram(f"{command[0]}: {done.stderr[-2000:]}{done.stdout[-2000:]}")


def _generate(*command: str, cwd: Path) -> None:
    done = _run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)
