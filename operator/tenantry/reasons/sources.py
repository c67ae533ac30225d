"""Reasons of sources, their repositories, and packages."""

from __future__ import annotations

from tenantry.reasons.entries import Explanation, Explanations

SOURCES: Explanations = {
    "CredentialsRefused": Explanation(
        "The host of the repository refuses the credentials, or asks for some.",
        "Set the Secret of the source, or the file of `TENANTRY_GIT__CREDENTIALS`; it is read again at once",
    ),
    "HostNotTrusted": Explanation(
        "The SSH key of the host is unknown or has changed, or its certificate is not trusted.",
        "If it is the right host, add its key or certificate as the message says",
    ),
    "Leaving": Explanation("The source is being deleted, and releases or deletes its objects.", "Wait"),
    "ObjectsNotReady": Explanation(
        "Everything is applied, but not everything is Ready. The message names three objects.",
        "Look at these objects: `tenantry describe KIND/NAME`",
    ),
    "ObjectsWaiting": Explanation(
        "An object of the source cannot be written yet, for example because its namespace does not exist.",
        "Declare what the message names",
    ),
    "OwnerNotTrusted": Explanation(
        "A `file://` repository belongs to another user than the one who runs Tenantry.",
        "Give the repository to that user, or serve it by ssh or https",
    ),
    "PruneHeld": Explanation(
        "An object left the source and is kept until a person approves its deletion.",
        "Run `tenantry approve source/NAME -n NAMESPACE`, or put the object back",
    ),
    "RemoteAway": Explanation(
        "The remote cannot be reached. The applied objects stay as they are, and the remote is asked again.",
        "Check the network and the host, if this lasts",
    ),
    "RepositoryAway": Explanation(
        "A commit of REST could not be pushed, because the repository does not answer.", "Repeat the request"
    ),
    "RepositoryNotFound": Explanation(
        "The host has no such repository, or hides it from these credentials.",
        "Correct the URL, or the rights of the credentials",
    ),
    "RepositoryRefused": Explanation(
        "The repository refused the commit of a REST write.", "Allow these credentials to push to the branch"
    ),
    "RepositorySlow": Explanation(
        "The push of a commit took too long. If the repository accepted it, the next sync applies it.",
        "Read the object, and repeat the request if it is unchanged",
    ),
    "SignatureRefused": Explanation(
        "The source takes only signed commits, and would refuse the commit of a REST write.",
        "Set a signing key that the source trusts",
    ),
    "SourceBroken": Explanation(
        "The newest commit is held back, or some of its objects are refused. The message has file and line.",
        "Correct the file; the last good state stays until then",
    ),
    "SourceBusy": Explanation("The source is still being read or written.", "Repeat the request"),
    "SourceNotRead": Explanation(
        "The source of the object is not being read now.", "Look at its condition Ready, then try again"
    ),
    "SourceNotWritten": Explanation("The source of the object takes no writes any longer.", "Read the object, and try again"),
    "Syncing": Explanation("The repository is being read.", "Wait"),
    "TooManySources": Explanation("The tenant has as many sources as it may have.", "Delete a source, or join two of them"),
    "UrlRefused": Explanation("Sources of tenants may not use `file://`.", "Use an https or ssh URL"),
}
PACKAGES: Explanations = {
    "ApiUnavailable": Explanation("The api, which keeps packages and logs, answers with an error.", "Look at the log of the api"),
    "ApiUnreachable": Explanation(
        "The operator does not reach the api, which keeps packages and logs.", "Check the api's pods and its Service"
    ),
    "BlobsUnavailable": Explanation(
        "The object store of packages and logs does not answer.", "Check `TENANTRY_CLUSTER__BLOBS` and its credentials"
    ),
    "FetchFailed": Explanation(
        "The host of the package did not answer, or answered without it.", "Check the host, if this lasts"
    ),
    "FetchRefused": Explanation(
        "The URL of the package, a redirect, or the address behind one is not allowed.",
        "Use a public https URL, or let an operator permit the network",
    ),
    "PackageDamaged": Explanation(
        "The stored bytes of the package are gone or damaged.", "Run `tenantry package push FILE` again"
    ),
    "PackageDiffers": Explanation(
        "The fetched bytes have another sha256 than declared.", "Check the host, then declare the sha256 of the message"
    ),
    "PackageFetching": Explanation("The bytes of the package are being fetched, or wait for their turn.", "Wait"),
    "PackageMismatch": Explanation(
        "The file holds another app or version than declared.", "Push the right file, or correct `spec.app` and `spec.version`"
    ),
    "PackageMissing": Explanation("The bytes of the package are not stored.", "Push them; the message has the command"),
    "PackageNotFound": Explanation(
        "Neither the tenant nor `tenantry-system` has a Package of this version.", "Declare the Package, or another version"
    ),
    "PackageNotReady": Explanation("The Package exists and is not Ready. The message is the Package's.", "Look at the Package"),
    "PackageNotSigned": Explanation(
        "The region or the environment names `packageKeys`, and none of them has signed the version.",
        "Sign the package with one of the keys, and push it with `--signature FILE`",
    ),
    "PackageRefused": Explanation(
        "The fetched file is too large, or not a sound package.", "Build it with `tenantry package build`"
    ),
}
