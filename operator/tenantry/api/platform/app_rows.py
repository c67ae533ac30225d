"""Rows of apps for the console, read-only. Each viewing is a line of the log that names who looked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import parse_qsl

import structlog

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import check_awake, endpoint_of
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Forbidden, Halt, NotFound
from tenantry.rest.engine.viewed import ViewedRows, ViewedTable
from tenantry.rest.problems import status_of

PAGE = 50
LONGEST = 200
"""Characters of a value that a cell shows."""
OWN = frozenset({"limit", "continue", "select"})
"""Parameters of the data API that the page sets, or whose answers it cannot show as cells."""

log = structlog.get_logger(__name__)


class AskedRows(NamedTuple):
    """The wishes of a viewer. filter: parameters of the data API, as typed; after: the mark of a page."""

    table: str = ""
    filter: str = ""
    after: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> AskedRows:
        """As the address has it."""
        return cls(query.get("table", ""), query.get("filter", "").strip(), query.get("after", ""))

    @property
    def given(self) -> list[tuple[str, str]]:
        """Return the parameters that the viewer may choose."""
        return [(name, value) for name, value in parse_qsl(self.filter, keep_blank_values=True) if name not in OWN]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Return the parameters for the engine."""
        return [*self.given, ("limit", str(PAGE)), *([("continue", self.after)] if self.after else [])]


class ShownRows(NamedTuple):
    """The answer to a viewer. refusal: why there is no page of rows, `""` where nothing was refused; status: of HTTP."""

    tables: tuple[ViewedTable, ...] = ()
    table: ViewedTable | None = None
    page: ViewedRows | None = None
    refusal: str = ""
    status: int = 200


class AppRows:
    """Reads rows of apps, for who administers their environment."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def check(self, principal: SignedInUser) -> None:
        """Raises Forbidden for who may not see the rows of any app."""
        if not principal.superuser and principal.caller.role != "ADMIN":
            raise Forbidden("only an ADMIN of the tenant, or a SUPERUSER, may see the rows of apps")

    async def shown(self, principal: SignedInUser, app: App, asked: AskedRows) -> ShownRows:
        """Return the tables of an app that the caller may see, and a page of rows if a table is asked for."""
        self.check(principal)
        found = ShownRows()
        ref = Ref(Environment.KIND, app.metadata.namespace, app.spec.environment)
        environment = cast("Environment | None", self._context.cache.resource(ref))
        endpoint = endpoint_of(environment)
        try:
            check_awake(environment)
            if endpoint is None:
                return found._replace(refusal=f"the engine of {ref} does not run; the page of the environment says why")
            view = self._context.facade.rows(endpoint)
            found = found._replace(tables=await view.tables(app.spec.app))
            if not asked.table:
                return found
            table = next((each for each in found.tables if each.name == asked.table), None)
            if table is None:
                raise NotFound(f"the installed version of {app.spec.app} has no table {asked.table}")
            found = found._replace(table=table)
            self._log(principal, ref, app, asked)
            return found._replace(page=await view.rows(app.spec.app, table.name, asked.query))
        except Halt as halt:
            return found._replace(refusal=halt.told, status=status_of(halt, conditional=False))

    def _log(self, principal: SignedInUser, environment: Ref, app: App, asked: AskedRows) -> None:
        """Log before the rows are read, so that a viewing that breaks off counts too. A filter's values may be personal."""
        caller, columns = principal.caller, ",".join(sorted({name for name, _ in asked.given}))
        about = {"by": caller.username, "role": caller.role, "app": app.spec.app, "table": asked.table, "filters": columns}
        log.info("rows viewed", object=str(environment), **about)
