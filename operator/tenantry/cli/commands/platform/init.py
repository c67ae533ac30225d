"""`tenantry init`: a first platform in an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenantry.cli.arguments import path_options
from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.output.documents import write

FILES = {
    "platform.yaml": """\
# A place where environments run: without settings, the machine or the cluster that runs Tenantry.
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata:
  name: home
---
# The namespace of the tenant. The label says that the tenant `first` may have it.
apiVersion: v1
kind: Namespace
metadata:
  name: tenant-first
  labels:
    tenantry.dev/tenant: first
---
# A customer of the platform.
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata:
  name: first
spec:
  displayName: First tenant
---
# A running engine: it holds apps, their tables, and the people who use them.
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata:
  name: dev
  namespace: tenant-first
spec:
  region: home
---
# A version of an app, built from the folder packages/notes.
apiVersion: tenantry.dev/v1alpha1
kind: Package
metadata:
  name: notes-1-0-0
  namespace: tenant-first
spec:
  app: notes
  version: "1.0.0"
  source: {path: packages/notes}
---
# The version that is installed in the environment.
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata:
  name: dev.notes
  namespace: tenant-first
spec:
  environment: dev
  app: notes
  version: "1.0.0"
""",
    "packages/notes/app.yaml": """\
apiVersion: tenantry.dev/app/v1
id: notes
name: Notes
author: First tenant
version: "1.0.0"

tables:
  - name: notes
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
      - {name: title, type: string, length: 200, nullable: false}
      - {name: body, type: text}

roles:
  writer: {notes: [read, write]}
  reader: {notes: [read]}
""",
    "packages/notes/content/index.html": """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Notes</title>
<h1>Notes</h1>
""",
    ".gitignore": ".tenantry/\n",
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("init", epilog=examples("tenantry init platform/"))(init)


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.", callback=path_options.a_new_folder)
    ] = Path(),
) -> None:
    """Writes a first platform into an empty folder: a region, a tenant, an environment and a small app."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        write(str(file))
    write("Run it, and follow your edits:")
    write(f"  tenantry up {folder}")
