"""The commands of `tenantry`. The module of a command is imported when the command is called or described."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.choosing import CLUSTER, ClusterChoice
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.clients.listing import listed

GROUPS = {
    "Run a platform": {
        "init": "platform.init",
        "up": "platform.up",
        "check": "platform.check",
        "doctor": "platform.doctor",
    },
    "Objects": {
        "get": "objects.objects",
        "describe": "objects.objects",
        "explain": "platform.explain",
        "delete": "objects.objects",
        "trace": "objects.objects",
        "edit": "objects.editing",
        "wait": "objects.waiting",
        "tree": "objects.trees",
        "operations": "objects.operations",
        "logs": "objects.operations",
        "reconcile": "objects.reconcile_commands",
        "suspend": "objects.reconcile_commands",
        "resume": "objects.reconcile_commands",
        "wake": "objects.reconcile_commands",
        "move": "objects.moving",
        "drift": "objects.drift",
    },
    "Declarations": {
        "validate": "planning.source",
        "apply": "planning.source",
        "approve": "planning.source",
        "plan": "planning.plan",
        "package": "transfer.packages",
        "secret": "platform.secrets",
    },
    "Backups and exports": {
        "backup": "transfer.backups",
        "backups": "transfer.backups",
        "restore": "transfer.backups",
        "accept-empty": "transfer.backups",
        "accept-state": "transfer.backups",
        "export": "transfer.exporting",
        "import": "transfer.importing",
    },
    "Processes and installation": {
        "version": "platform.version",
        "token": "platform.tokens",
        "completion": "platform.completion",
        "crds": "platform.crds",
        "engine": "platform.engine",
        "pool": "platform.pool",
        "operator": "platform.cluster",
        "api": "platform.cluster",
        "uninstall": "platform.uninstall",
    },
}
"""Each command, and the module below `cli/commands` whose `register` adds it; as `tenantry --help` groups and orders them."""
COMMANDS = {name: (module, group) for group, modules in GROUPS.items() for name, module in modules.items()}


class ImportedCommands(MutableMapping[str, Any]):
    """The commands by name. A module is imported when one of its commands is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            topic = typer.Typer()
            import_module(f"tenantry.cli.commands.{COMMANDS[name][0]}").register(topic)
            made: dict[str, Any] = dict(typer.main.get_group(topic).commands)
            for each, command in made.items():
                command.rich_help_panel = COMMANDS[each][1]
            self._made |= made
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Root(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"commands": {}})
        self.commands = ImportedCommands()


app = typer.Typer(
    name="tenantry",
    cls=_Root,
    help="Runs a multi-tenant application platform from declarations.",
    no_args_is_help=True,
    epilog=examples("tenantry init platform/", "tenantry up platform/", "tenantry --context production get environments"),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "obj": listed},
)


def _end_with_version(asked: bool) -> None:
    """The same as `tenantry version`."""
    if asked:
        from tenantry.cli.commands.platform.version import version

        version()
        raise typer.Exit


@app.callback()
def platform(
    context: Annotated[
        str, typer.Option("--context", envvar="TENANTRY_CONTEXT", help="A cluster, by its context in the kubeconfig.")
    ] = "",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", envvar="TENANTRY_KUBECONFIG", help="A cluster, by its kubeconfig.", callback=path_options.a_file
        ),
    ] = None,
    release: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_end_with_version, help="Prints the release.")
    ] = False,
) -> None:
    """Runs a multi-tenant application platform from declarations."""
    CLUSTER.set(ClusterChoice(kubeconfig, context or None) if context or kubeconfig else None)
