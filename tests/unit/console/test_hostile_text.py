"""Markup in any declared or reported text of any kind stays text on every page that shows the object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenantry.api.facade_context import FacadeContext
from tenantry.console.http.pages import rendered
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.console.views.actions import ActionPlan, confirmation
from tenantry.model.resource import Resource, parse_time
from tenantry.runtime.cache import Cache
from tests.scenario.console.canaries import CANARIES, TIME, attacked, base_of
from tests.scenario.console.console_world import Parsed


async def pages(document: dict[str, Any], type_: type[Resource[Any, Any]], log: str) -> list[str]:
    cache = Cache(TYPES)
    cache.absorb(document)

    async def read(id_: str) -> str:
        return log

    facade = SimpleNamespace(writers=(), archives=None, logs=SimpleNamespace(read=read), now=lambda: parse_time(TIME))
    screens = Screens(cast(FacadeContext, SimpleNamespace(cache=cache, facade=facade)))
    shown = [await screens.show(Rights(True), path, {}) for path in ("", type_.PLURAL, f"{type_.PLURAL}/uid")]
    return [screen.content for screen in shown]


@pytest.mark.parametrize("kind", TYPES)
async def test_markup_in_any_text_of_any_kind_stays_text(kind: str) -> None:
    document, taken = attacked(kind)
    for content in await pages(document, TYPES[kind], CANARIES[0]):
        parsed = Parsed(content)
        assert "canary" not in {attributes.get("id") for _, attributes in parsed.tags}
        assert {"script", "img", "b", "i"}.isdisjoint(tag for tag, _ in parsed.tags)
        assert not [1 for _, attributes in parsed.tags if any(name.startswith("on") for name in attributes)]
        assert "49" not in parsed.text
        hidden = [str(attributes["href"]) for _, attributes in parsed.tags if attributes.get("href")]
        assert all(link.startswith("/console/") for link in hidden), hidden
    assert len(taken) >= 8
    assert parsed.text.count("<script id=canary>") + parsed.text.count("<b id=canary>") >= len(taken)


def test_markup_in_a_plan_and_in_a_refusal_stays_text() -> None:
    region = TYPES["Region"].model_validate(base_of("Region"))
    for plan in (ActionPlan((CANARIES[0], "two"), CANARIES[0]), ActionPlan(refusal=CANARIES[0])):
        form = {"name": CANARIES[0], "lines": f"{CANARIES[0]} before"}
        values = {**confirmation(region, "delete", plan, form, CANARIES[0]), "csrf": "token", "help": "/docs/"}
        parsed = Parsed(rendered("confirm.html", values))
        assert {"script", "img"}.isdisjoint(tag for tag, _ in parsed.tags)
        sent = [attributes["value"] for _, attributes in parsed.tags if attributes.get("name") == "lines"]
        assert sent == ([f"{CANARIES[0]}\ntwo"] if plan.lines else [])
