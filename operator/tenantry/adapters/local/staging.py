"""Engines on their way back: unpacked beside the others, taken in by the first deploy of the environment they are for."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from datetime import timedelta
from pathlib import Path

import orjson

from tenantry.adapters.local.archives import unpack
from tenantry.model.facts import EngineRef
from tenantry.rest.disk import make_durable

_FOR = "for.json"
_FILES = "engine"


class Staging:
    """`<state>/restoring/<environment id>/`: whom it is for, and the engine's files. Its calls block."""

    def __init__(self, state: Path) -> None:
        """Removes what an interrupted unpacking left."""
        self._folder = state / "restoring"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for unfinished in self._folder.glob(".*"):
            shutil.rmtree(unfinished)

    def put(self, archive: Path, ref: EngineRef) -> None:
        """Unpacks an archive for an environment, by one rename; replaces an earlier one. Raises Invalid, OSError."""
        unfinished = self._folder / f".{secrets.token_hex(8)}"
        unfinished.mkdir(mode=0o700)
        try:
            unpack(archive, unfinished / _FILES)
            self._write_for(unfinished / _FOR, ref)
            make_durable(unfinished)
            self.discard(ref.id)
            unfinished.rename(self._folder / ref.id)
            make_durable(self._folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def holds(self, id_: str) -> bool:
        """Is there anything for the environment with that id?"""
        return os.path.exists(f"{self._folder}/{id_}")  # noqa: PTH110 - asked for every environment that is made

    def take(self, ref: EngineRef, target: Path) -> None:
        """Moves the engine's files to `target` where they are for that environment. Idempotent. Raises OSError."""
        held = self._folder / ref.id
        try:
            whose = orjson.loads((held / _FOR).read_bytes())
        except FileNotFoundError:
            return
        if (whose["namespace"], whose["name"]) != (ref.namespace, ref.name):
            return
        if (held / _FILES).exists():
            (held / _FILES).rename(target)
            make_durable(target.parent)
        self.discard(ref.id)

    def discard(self, id_: str) -> None:
        """Removes what is left for the environment with that id. Idempotent."""
        held = self._folder / id_
        if held.exists():
            trash = self._folder / f".{secrets.token_hex(8)}"
            held.rename(trash)
            shutil.rmtree(trash)

    def sweep(self, age: timedelta) -> None:
        """Removes what nobody took for that long."""
        for held in self._folder.iterdir():
            if time.time() - held.stat().st_mtime > age.total_seconds():
                shutil.rmtree(held)

    @staticmethod
    def _write_for(path: Path, ref: EngineRef) -> None:
        path.write_bytes(orjson.dumps({"namespace": ref.namespace, "name": ref.name}))
        make_durable(path)
