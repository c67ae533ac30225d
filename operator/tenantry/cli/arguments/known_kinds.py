"""The names and columns of kinds as a file, generated from the definitions: a command that only reads does not load the specs.

`python -m tenantry.cli.arguments.known_kinds` writes it; `make crds` does so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tenantry.cli.arguments.kinds import FILE
from tenantry.kinds import crds
from tenantry.kinds.registry import CONTENTS


def generated() -> str:
    """Return the text of the file: a line for each kind."""
    kinds = ",\n".join(json.dumps(_kind(kind)) for kind in crds.KINDS)
    return f'{{"contents": {json.dumps(CONTENTS)}, "kinds": [\n{kinds}\n]}}\n'


def _kind(kind: crds.Kind) -> Mapping[str, Any]:
    definition = crds.definition(kind)
    names = definition["spec"]["names"]
    printed = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    columns = [
        ((column["name"].upper(), column["jsonPath"], column["type"]), column.get("priority", 0))
        for column in printed
        if column["name"] != "Age"
    ]
    return {
        "kind": kind.KIND,
        "plural": names["plural"],
        "shorts": names["shortNames"],
        "namespaced": definition["spec"]["scope"] == "Namespaced",
        "columns": [column for column, priority in columns if not priority],
        "wide": [column for column, priority in columns if priority],
        "important": sorted(title.upper() for title in kind.IMPORTANT_COLUMNS),
        "has_status": any(column["name"] == "Ready" for column in printed),
    }


if __name__ == "__main__":
    FILE.write_text(generated())
