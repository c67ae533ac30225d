"""The page of an app's rows: its tables, a filter, and one page of rows as texts. Pure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tenantry.api.platform.app_rows import LONGEST, AskedRows, ShownRows
from tenantry.kinds.app.spec import App


def rows_page(app: App, asked: AskedRows, shown: ShownRows) -> dict[str, Any]:
    """The values of rows.html."""
    columns = shown.table.columns if shown.table is not None else ()
    rows, after = shown.page or ((), "")
    more = urlencode({"table": asked.table, "filter": asked.filter, "after": after}) if after else ""
    texts = [[_text(row.get(name)) for name in columns] for row in rows]
    return {"app": app, "asked": asked, "shown": shown, "rows": texts, "longest": LONGEST, "more": more}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
