"""The header `Prefer` and the parameter `on_conflict` of a request that writes rows, as PostgREST has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from tenantry.engine.data.exposure import Exposed
from tenantry.rest.bodies import invalid

MERGE, MINIMAL, REPRESENTATION = "merge-duplicates", "minimal", "representation"
_KNOWN = {"return": (MINIMAL, REPRESENTATION), "resolution": (MERGE,)}
PREFER = f"return={MINIMAL}: answer no rows. resolution={MERGE}: change the rows that are there already (POST)."
ON_CONFLICT = f"The columns of the key by which resolution={MERGE} finds them. Default: the primary key."


@dataclass(frozen=True)
class WritePreferences:
    """The preferences of one request; `""` where it has none.

    minimal: answer no rows; representation: answer them; merge: change the rows that are there already. on_conflict: the
    columns that say which those are.
    """

    minimal: bool
    representation: bool
    merge: bool
    on_conflict: str | None

    @property
    def applied(self) -> dict[str, str]:
        """The header that says which of them were followed."""
        told = [f"return={MINIMAL}"] * self.minimal + [f"return={REPRESENTATION}"] * self.representation
        told += [f"resolution={MERGE}"] * self.merge
        return {"Preference-Applied": ", ".join(told)} if told else {}

    def conflict(self, exposed: Exposed) -> tuple[str, ...]:
        """The columns of the key by which rows are merged, in its order; () without a merge.

        Raises Invalid unless the table declares them as a key that a request can give.
        """
        if not self.merge:
            return ()
        told = "primary key" if self.on_conflict is None else self.on_conflict[:64]
        columns = exposed.key if self.on_conflict is None else tuple(self.on_conflict.split(","))
        keys = (exposed.key, *exposed.declared.unique)
        known = [tuple(key) for key in keys if not any(exposed.columns[name].generated for name in key)]
        for key in known:
            if sorted(key) == sorted(columns):
                return key
        choices = " or ".join(",".join(key) for key in known) or "nothing: the table has no key that a request gives"
        raise invalid("on_conflict", f"cannot merge rows by {told}; it takes {choices}")


def preferences_of(request: Request) -> WritePreferences:
    """Return what the request prefers. Unknown preferences are ignored, as RFC 7240 has it. Raises Invalid for unknown values."""
    given = preferences(request.headers.getlist("prefer"))
    for name, known in _KNOWN.items():
        if name in given and given[name] not in known:
            raise invalid("Prefer", f"{name}={given[name][:40]} is not supported; it takes {' or '.join(known)}")
    on_conflict = request.query_params.getlist("on_conflict")
    if len(on_conflict) > 1:
        raise invalid("on_conflict", "is given twice")
    if on_conflict and "resolution" not in given:
        raise invalid("on_conflict", f"needs the header Prefer: resolution={MERGE}")
    returned = given.get("return", "")
    return WritePreferences(
        minimal=returned == MINIMAL,
        representation=returned == REPRESENTATION,
        merge="resolution" in given,
        on_conflict=on_conflict[0] if on_conflict else None,
    )


def preferences(headers: Sequence[str]) -> dict[str, str]:
    """The preferences by name; the first of a name counts."""
    found: dict[str, str] = {}
    for part in ",".join(headers).split(","):
        name, _, value = part.partition(";")[0].partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found
