"""The first sign-ins of an engine at once: each token stays valid."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.scenario.data_world import DATA, engine_with_app, signed_in


@pytest.mark.slow
async def test_tokens_of_first_sign_ins_at_once_are_all_valid(tmp_path: Path) -> None:
    async def list_rows(url: str) -> int:
        async with signed_in(url, "ed") as client:
            return (await client.get(f"{DATA}/contacts")).status_code

    async with engine_with_app(tmp_path) as (_, url):
        assert await asyncio.gather(*(list_rows(url) for _ in range(6))) == [200] * 6
