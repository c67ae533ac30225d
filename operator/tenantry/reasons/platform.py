"""Reasons of the platform itself: its state folder, the API server, the network and its limits."""

from __future__ import annotations

from tenantry.reasons.entries import Explanation, Explanations

MACHINE: Explanations = {
    "DiskFailed": Explanation("A file of a source could not be read or written.", "Check the disk; the message has the reason"),
    "DiskUnwritable": Explanation(
        "The disk is full, or cannot be written. Tenantry tries again.", "Free space, or mount it writable"
    ),
    "FileError": Explanation("A file that the command names cannot be read or written.", "Check the path and its permissions"),
    "ReleaseDiffers": Explanation(
        "The command and the running platform are of different releases. Nothing was changed.",
        "Use the command of the platform's release, or end `up` and start it with the release of the command",
    ),
    "StateFolder": Explanation(
        "The folder of the engines cannot be written. Tenantry tries again.", "Check the disk of the state folder"
    ),
    "StateInUse": Explanation(
        "Another process uses the state folder.", "End that process, or name another folder with `--state`"
    ),
    "StateUnreadable": Explanation(
        "The state folder belongs to a newer release, or a file of it is missing, damaged or replaced.",
        "Use that release, or put the file back that the message names",
    ),
    "StateUnwritable": Explanation("The state folder cannot be written.", "Check the disk and the permissions of the folder"),
    "WrongKey": Explanation(
        "A stored value is damaged, or was sealed with another key.", "Put the folder `keys/` back, or set the Secret again"
    ),
}
CLUSTER: Explanations = {
    "AnswerLost": Explanation("The connection to the API server broke before it answered.", "Repeat the command"),
    "CommandFailed": Explanation(
        "A command inside an engine's pod failed. The message has its error.", "Look at the log of the pod"
    ),
    "CredentialsUnreadable": Explanation("A file of the cluster's credentials cannot be read.", "Correct the kubeconfig"),
    "LeaseNotRenewed": Explanation(
        "This replica of the operator was stopped, or did not reach the API server, so another may act. It does nothing more.",
        "Wait: the other replica goes on, or this one once it has renewed its lease",
    ),
    "DefinitionsDiffer": Explanation(
        "The custom resource definitions of the cluster are those of another release. The operator and the api wait for theirs.",
        "Apply the definitions of the release that runs, or run the release that they belong to",
    ),
    "ExecInterrupted": Explanation("The connection to an engine's pod was lost.", "Repeat the command"),
    "Expired": Explanation("The API server no longer has the version of a list.", "Nothing; the list is read again"),
    "KeysUnreadable": Explanation(
        "The Secret `tenantry-keys` does not hold the platform's keys.",
        "Restore the Secret; a new one makes all tokens invalid",
    ),
    "NotJson": Explanation("The server of the kubeconfig is not an API server.", "Correct the server of the kubeconfig"),
    "ProtocolUnknown": Explanation("The API server is too old for commands inside pods.", "Upgrade the cluster"),
    "Timeout": Explanation("The API server did not answer in time.", "Repeat the command; look at the API server if this lasts"),
    "Unreachable": Explanation("The API server cannot be reached.", "Check the kubeconfig and the network"),
}
LIMITS: Explanations = {
    "AddressRefused": Explanation(
        "A declared URL leads to a private or forbidden address.",
        "Use a public address, or let an operator name its network in `TENANTRY_OUTBOUND__NETWORKS`",
    ),
    "Forbidden": Explanation("The caller may not do this.", "Use an account with the right role"),
    "OutboundFailed": Explanation(
        "A request to an issuer or another server outside failed.", "Check that server and the network"
    ),
    "PlanTooLong": Explanation("The plan takes longer than the server allows.", "Plan a part of the source"),
    "TooManyRequests": Explanation("Too many requests or streams of this caller are open.", "Wait, and send fewer at once"),
    "Unauthorized": Explanation("The credentials are missing, wrong or no longer valid.", "Sign in again"),
}
STATUSES: dict[int, Explanation] = {
    400: Explanation(
        "The request is not well-formed, or its values are refused. The error names the field.",
        "Correct the field, and repeat it",
    ),
    401: Explanation("The caller is not known: the token is missing, wrong or no longer valid.", "Sign in again"),
    403: Explanation("The caller is known and may not do this.", "Use an account with the right role"),
    404: Explanation("The path or the object does not exist, or belongs to another tenant.", "Check the id and the tenant"),
    405: Explanation("The path does not know this method.", "Use a method that `/docs/api/` lists for the path"),
    409: Explanation("Somebody changed the object at the same time.", "Read it again, and repeat the request"),
    412: Explanation(
        "The object differs from what `If-Match` or `If-Plan` names.",
        "Read or plan again, and repeat the request if it still holds",
    ),
    413: Explanation("The body, or what would be stored, is too large.", "Send less; the header `Tenantry-Quota` names a quota"),
    415: Explanation("The body is compressed, and no compression is accepted.", "Send it without the header `Content-Encoding`"),
    416: Explanation("The header `Range` lies outside the file.", "Ask for a part that exists"),
    429: Explanation("Too many requests or sign-ins.", "Wait as long as the header `Retry-After` says"),
    500: Explanation("The platform failed. Its log has the cause.", "Repeat the request once; report it if it fails again"),
    502: Explanation("The engine ended without an answer.", "Look whether a write was carried out before it is repeated"),
    503: Explanation("The platform, an engine or its database is not ready.", "Repeat the request after `Retry-After` seconds"),
    507: Explanation("The environment has as many bytes as its quota allows.", "Delete rows, or let an operator raise the quota"),
}
"""HTTP statuses of refusals."""
EXIT_CODES: dict[int, Explanation] = {
    0: Explanation("Done. `up --once`, `check` and `wait`: everything is Ready. `plan`: nothing would change.", "Nothing"),
    1: Explanation(
        "Not done, or not Ready. `plan`: something would change. `drift`: there is drift.",
        "Read the error; it names the next step",
    ),
    2: Explanation("Bad input, or a wrong call. `plan`: any error.", "Correct the file or the arguments; `--help` lists them"),
    130: Explanation("The command was interrupted with Ctrl-C.", "Nothing"),
    141: Explanation("The reader of the output went away, as `head` does.", "Nothing"),
}
