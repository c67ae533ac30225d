"""The database of an Environment's engine: the declared one at first, then the one that has its data. Pure."""

from __future__ import annotations

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.environment.spec import Environment
from tenantry.model.decision import Warned
from tenantry.model.facts import DataPlace, EngineFacts, SecretFacts
from tenantry.model.resource import SecretKeyRef
from tenantry.model.verdicts import Stalled, Verdict

FIELD = "spec.engine.database"


def database_of(environment: Environment, engine: EngineFacts | None) -> SecretKeyRef | None:
    """The Secret with the database's URL, None for SQLite in the engine's folder. Data that is there stays where it is."""
    declared = environment.spec.engine.database
    return declared.secret_ref if declared is not None and _data_of(environment, engine) != "Folder" else None


def database_refusal(environment: Environment, secret: SecretFacts | None, engine: EngineFacts | None) -> Verdict | None:
    """Return the reason that the engine cannot have its database, or None. secret: the one that is declared."""
    if environment.spec.engine.database is None:
        if _data_of(environment, engine) != "Server":
            return None
        ways = "Declare it again; or, for an empty engine, delete the environment and make another"
        return Stalled("DatabaseNotDeclared", f"{FIELD}: the engine's data is in the database that was declared here. {ways}")
    declared = database_of(environment, engine)
    if declared is None or secret is None or secret.state == "Present":
        return None
    return without_secret(secret, declared, f"{FIELD}.secretRef", "environment")


def database_warning(environment: Environment, engine: EngineFacts | None) -> Warned | None:
    """Says that the declared database is not used."""
    if environment.spec.engine.database is None or _data_of(environment, engine) != "Folder":
        return None
    ways = "Take the field out; or make another environment with it, and bring the data there"
    return Warned("DatabaseNotUsed", f"{FIELD}: the engine already has its data in SQLite, and keeps using it. {ways}")


def _data_of(environment: Environment, engine: EngineFacts | None) -> DataPlace:
    """Return the place of the data of an engine that ran once; one that never did has none."""
    if engine is None or engine.missing or environment.status.phase != "READY":
        return ""
    return engine.place
