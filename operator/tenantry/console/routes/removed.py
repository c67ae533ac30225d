"""Removed environments, and their return from the backup that their deletion left."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.platform.backups import EnvironmentBackups
from tenantry.console.http.pages import redirect
from tenantry.console.http.sessions import BASE
from tenantry.console.routes.shell import PageShell, refused
from tenantry.console.texts import TEXTS
from tenantry.kinds.environment.spec import Environment
from tenantry.model.resource import ref_of
from tenantry.model.verdicts import Halt

PATH = "removed"


class Removed:
    """GET shows the removed environments, or what the return of one would make. POST brings it back."""

    def __init__(self, shell: PageShell) -> None:
        self._shell = shell
        self._backups = EnvironmentBackups(shell.context)

    async def list(self, request: Request) -> Response:
        """Show the backups of removed environments. Raises Forbidden."""
        principal = await self._superuser(request)
        values = {"rows": await self._backups.kept(), "here": self._backups.here}
        return self._shell.still(request, principal, TEXTS["removed"], Environment.PLURAL, "removed.html", values)

    async def plan(self, request: Request) -> Response:
        """Show what would come back. Raises Forbidden, NotFound."""
        return await self._page(request, await self._superuser(request))

    async def act(self, request: Request) -> Response:
        """Bring the environment back, with its rows, under its own name and id."""
        await self._shell.sessions.form(request)
        principal = await self._superuser(request)
        id_ = request.path_params["id"]
        await self._backups.read(id_)
        try:
            applied = await self._backups.restore(principal, id_)
        except Halt as halt:
            return await self._page(request, principal, *refused(halt))
        entry = self._shell.cache.entry(applied[0].ref)
        return redirect(f"{BASE}/{Environment.PLURAL}/{entry.uid}" if entry is not None else f"{BASE}/{Environment.PLURAL}")

    async def _superuser(self, request: Request) -> SignedInUser:
        principal = await self._shell.sessions.principal(request)
        principal.require_superuser()
        return principal

    async def _page(self, request: Request, principal: SignedInUser, error: str = "", status: int = 200) -> Response:
        facts, backup = await self._backups.read(request.path_params["id"])
        values = {"one": facts, "lines": [f"+ {ref_of(one)}" for one in backup.documents], "error": error}
        return self._shell.still(request, principal, TEXTS["removed"], Environment.PLURAL, "undelete.html", values, status)
