"""Reasons of engines: their processes, databases, apps and foreign engines."""

from __future__ import annotations

from tenantry.reasons.entries import Explanation, Explanations

ENGINES: Explanations = {
    "EngineAnswer": Explanation(
        "The engine's answer does not follow the interface of engines.", "Check the URL of a foreign engine, or its version"
    ),
    "EngineBusy": Explanation("The engine has too much to do at this moment. Tenantry tries again.", "Wait"),
    "EngineFailed": Explanation("The engine does not run. The message is its provider's.", "Look at its pod or its log"),
    "EngineFailing": Explanation("The engine answers with an error of its own.", "Look at the log of the engine, if this lasts"),
    "EngineMissing": Explanation("The engine is being created.", "Wait"),
    "EngineNamespaceDeleting": Explanation("The engine's namespace is still being deleted.", "Wait"),
    "EngineNamespaceTaken": Explanation(
        "A foreign namespace has the name that the engine needs. It stays as it is.", "Delete or rename the foreign namespace"
    ),
    "EngineNotRunning": Explanation("The engine of the environment does not run yet.", "Wait, or look at the environment"),
    "EngineRefused": Explanation(
        "The cluster refuses an object of the engine. The message names it and the field.",
        "Correct the size or the storage, or the policy of the cluster",
    ),
    "EngineRefusesPassword": Explanation(
        "The foreign engine refuses the password of its `admin`.", "Set the right password in the Secret of `engine.external`"
    ),
    "EngineSleeping": Explanation(
        "The engine sleeps, and the change needs it. Tenantry wakes it for that; a plan shows what can be known without it.",
        "Wait, or read the object later",
    ),
    "EngineSlow": Explanation(
        "The engine did not carry out the change within 30 s. The Operation continues.",
        "Run `tenantry logs OPERATION -f`, or read the object later",
    ),
    "EngineStarting": Explanation("The engine was created, and starts.", "Wait"),
    "EngineTaken": Explanation(
        "The engine in this place belongs to another environment. It stays as it is.",
        "Remove `spec.id`, or delete the other environment",
    ),
    "EngineTimeout": Explanation("The engine did not answer in time. Tenantry tries again.", "Look at its load, if this lasts"),
    "EngineUnreachable": Explanation("The engine cannot be reached. Tenantry tries again.", "Check its pod and the network"),
    "ExternalNotAllowed": Explanation(
        "The region permits no foreign engines.", "Name another region, or set `Region.spec.engine.external`"
    ),
    "HibernationNotUsed": Explanation(
        "`spec.hibernation` is only for an engine with a pod of its own. This one sleeps by itself, or is run by others.",
        "Remove `spec.hibernation`, or declare a new environment with `engine.placement: Dedicated`",
    ),
    "InvalidId": Explanation("The id of the environment cannot name a folder.", "Remove `spec.id`, or write a UUID"),
    "KubeconfigRefused": Explanation(
        "The kubeconfig of the region cannot be used. The message names the field.", "Correct the Secret of the region"
    ),
    "NoRoomForCopy": Explanation(
        "The copy of an engine that comes to a pool finds no room beside the engines there. Tenantry tries again every minute.",
        "Raise `storage.size` of the pool, or wait until other engines have come",
    ),
    "NotLookedAt": Explanation(
        "The engine sleeps, so Tenantry does not look whether it still is as declared. It does when the engine wakes.",
        "Run `tenantry wake` for its environment, if you want to know now",
    ),
    "NotAnEngine": Explanation("The URL of the foreign engine leads to another server.", "Correct `spec.engine.external.url`"),
    "ObjectTaken": Explanation(
        "A foreign object has the name that Tenantry needs. It stays as it is.", "Delete or rename the foreign object"
    ),
    "EngineThere": Explanation("The pool has the engine of this environment already.", "Wait; the next reconcile looks again"),
    "MoveInterrupted": Explanation(
        "A place of the engine did not answer during its move. The move goes on.", "Look at its pod, if this lasts"
    ),
    "MoveRefused": Explanation(
        "A place of the engine runs a release that knows no moves, or could not copy the engine. Tenantry tries again.",
        "Wait for the rollout window of the region, or look at the logs of both places",
    ),
    "MoveStale": Explanation("The engine was written since it was copied. The move goes on with another copy.", "Wait"),
    "MoveUnverified": Explanation(
        "The engine does not answer in its new place yet. Its old place is kept until it does.", "Look at the log of its pod"
    ),
    "MoveWaits": Explanation(
        "A write, such as a migration, lasts too long for the last copy of a move. It was not interrupted.",
        "Wait; the move tries again",
    ),
    "Moving": Explanation(
        "The engine moves to another place. It can be read all the time, and refuses writes during the last copy.",
        "Send the write again, as the header `Retry-After` says",
    ),
    "PlacementFixed": Explanation(
        "The engine is declared in a place to which it cannot move: all engines of one machine are in one place.",
        "Remove `spec.engine.placement` and `spec.engine.pool`",
    ),
    "PlacementNotAllowed": Explanation(
        "The region does not place engines as the environment asks.", "Remove `spec.engine.placement`, or name another region"
    ),
    "PlacementNotUsed": Explanation(
        "`spec.engine.pool` and `placement: Dedicated` are for clusters. On one machine all engines run in one process.",
        "Remove the field that the message names, or run the environment on a cluster",
    ),
    "PoolAnswer": Explanation("The pool's answer is none of a pool. Tenantry tries again.", "Look at the log of the pool"),
    "PoolClosing": Explanation("The pool is being removed and takes no engine.", "Wait, or name another pool"),
    "PoolFailed": Explanation("The pod of a pool does not run. The message is the cluster's.", "Look at its pod or its log"),
    "PoolFull": Explanation(
        "The pool holds as many engines as it may. Tenantry tries again every minute.",
        "Raise `enginesPerReplica` of the pool, or add another pool to the Region",
    ),
    "PoolInUse": Explanation(
        "The pool is to be removed and still holds engines.",
        "Delete the environments",
    ),
    "PoolLacks": Explanation(
        "An engine in a pool has no version, size, volume or database of its own.",
        "Remove the field that the message names, or declare `placement: Dedicated`: the engine moves",
    ),
    "PoolNotFound": Explanation("The region does not have the pool.", "Name a pool of the region, or remove `spec.engine.pool`"),
    "PoolServerRefuses": Explanation(
        "The PostgreSQL server of the pool refuses the administrator's role. The operator's log has its words.",
        "Give the role `CREATEDB` and `CREATEROLE`, and a server whose locale allows UTF8",
    ),
    "PoolServerTooSmall": Explanation(
        "The PostgreSQL server of the pool has too few connections for `maxReplicas`. The pods that run stay as they are.",
        "Lower `maxReplicas`, or raise `max_connections` of the server",
    ),
    "PoolServerUnreachable": Explanation(
        "The PostgreSQL server of the pool is not reached, or does not do it now. Tenantry tries again.",
        "Look at the operator's log, the server, and the Secret in `adminSecretRef`, if this lasts",
    ),
    "PoolStarting": Explanation("The pod of a pool was created, and starts.", "Wait"),
    "PoolUnreachable": Explanation("The pool does not answer. Tenantry tries again.", "Look at its pod, if this lasts"),
    "OrphanedAtProvider": Explanation(
        "The object was released without being removed from a foreign engine, because its password is gone.",
        "Remove it in the foreign engine by hand, if it should go",
    ),
    "CredentialMissing": Explanation(
        "A deletion needs the password of the foreign engine, which is missing. After ten minutes it goes on without.",
        "Put the Secret back, if the engine should be tidied up",
    ),
    "QuotaExceeded": Explanation(
        "A ResourceQuota of the cluster refuses an object. Tenantry tries again.",
        "Raise the ResourceQuota of the namespace in the message",
    ),
    "SizeNotAllowed": Explanation("The region does not offer this size.", "Choose one of `Region.spec.engine.sizes`"),
    "SizeUnknown": Explanation("The chart does not define this size.", "Add it to `engines.sizes` of the chart"),
    "Sleeping": Explanation(
        "The engine sleeps: it has no pod, and its volume stays. Requests to it are answered 503 until it is woken; with"
        " `wake: OnRequest` they wake it, and are answered 503 only if it does not run in time or too many wait.",
        "Run `tenantry wake NAMESPACE/NAME` if you need it",
    ),
    "TimeZoneUnknown": Explanation(
        "`spec.hibernation.schedule` names a time zone that does not exist.", "Write a name such as `Europe/Berlin`"
    ),
    "VersionNotAllowed": Explanation("The region does not offer this version.", "Choose one of `Region.spec.engine.images`"),
}
DATA: Explanations = {
    "DatabaseDamaged": Explanation(
        "The database file of the engine is damaged.", "Put it back from a copy, or run `tenantry restore` with a backup"
    ),
    "DatabaseNotDeclared": Explanation(
        "The engine's data is in the database that `engine.database` named, but the field was removed.", "Put the field back"
    ),
    "DatabaseNotUsed": Explanation(
        "The engine already has its data in SQLite, and does not move it to the declared database.",
        "Follow one of the ways that the message names",
    ),
    "DatabaseTaken": Explanation(
        "The database belongs to another engine, or holds the data of one.",
        "Declare an empty database, or run `tenantry engine release` if the other engine is gone",
    ),
    "DatabaseUnavailable": Explanation(
        "The database does not answer, or its lock is held. Tenantry tries again.", "Check the server"
    ),
    "DatabaseUrlRefused": Explanation(
        "The URL does not name a server over TCP, or has a forbidden option.",
        "Correct the URL in the Secret of `engine.database`",
    ),
    "DataMissing": Explanation(
        "The engine was Ready, and its data is gone. Tenantry deploys nothing over it, and does not delete it without the "
        "promised archive.",
        "Put the data back, restore a backup, or accept an empty engine with `tenantry accept-empty NAMESPACE/NAME`",
    ),
    "DropsRefused": Explanation(
        "The install would lose the data that the message lists.",
        "Allow it, as the page of the App says, or declare another version",
    ),
    "RowsDoNotFit": Explanation(
        "Existing rows make a step of the install impossible. No approval helps.", "Change the rows, or declare another version"
    ),
}
BACKUPS: Explanations = {
    "KeptVolumeGone": Explanation("The volume of the restore no longer exists.", "Restore another backup"),
    "KeptVolumeTaken": Explanation(
        "The volume of the restore is kept for another environment.", "Name the right id; see `tenantry backups`"
    ),
    "KeptVolumeUnreadable": Explanation("The Secret that describes a kept volume is damaged.", "Restore another backup"),
    "RestoreUnfinished": Explanation("A restore was interrupted.", "Run the same `tenantry restore` again; it continues"),
    "Restoring": Explanation(
        "The engine waits for the backup of `tenantry restore`.", "Wait; if it was interrupted, run it again"
    ),
    "TooMuchDeclared": Explanation(
        "The declarations of the environment are too large to be kept with its volume.",
        "Back the environment up to a file, then set `deletionPolicy: Delete`",
    ),
    "VolumeGone": Explanation(
        "The environment is to be kept when it is deleted, but its volume is deleted or is being deleted.",
        "Run `tenantry backup` if the engine still runs, then set `deletionPolicy: Delete` to continue",
    ),
}
