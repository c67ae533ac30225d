"""Reasons of declared objects: names, references, Secrets, tenants, users and sources."""

from __future__ import annotations

from tenantry.reasons.entries import Explanation, Explanations

_NOTHING = "Nothing; the object goes on by itself"

REFERENCES: Explanations = {
    "AlreadyExists": Explanation("An object of that name exists.", "Choose another name, or edit the existing object"),
    "Conflict": Explanation("The object was changed or replaced since it was read.", "Read it again, and repeat the change"),
    "Duplicate": Explanation(
        "Another object has the same username, name, or app and version, and was there first.",
        "Give this object another one, or delete the other object",
    ),
    "EnvironmentDeleting": Explanation(
        "The environment of the object is being deleted.", "Nothing, or declare the object for another environment"
    ),
    "EnvironmentMissing": Explanation(
        "The environment that the object names does not exist yet.", "Declare the environment, or correct `spec.environment`"
    ),
    "IdTaken": Explanation("`spec.id` is the id of another environment.", "Remove `spec.id`, or write an unused UUID"),
    "InUse": Explanation(
        "A deletion waits because other objects still use this one. `status.deletion.blockers` names them.",
        "Delete the users first, or let them use another object",
    ),
    "Invalid": Explanation(
        "The declared values are refused. The message names each field and what is wrong with it.",
        "Correct the fields, and apply the declaration again",
    ),
    "Misplaced": Explanation(
        "The object is in the wrong namespace: Users and shared Packages live in `tenantry-system`.",
        "Move the declaration to the namespace that the message names",
    ),
    "NotFound": Explanation("The object, package, version or identity does not exist.", "Check the name and the namespace"),
    "Overtaken": Explanation(
        "The object was edited, cancelled or deleted before the request was carried out.",
        "Read the object, and repeat the request if you still want it",
    ),
    "RegionDeleting": Explanation("The region is being deleted, and takes no new environments.", "Name another region"),
    "RegionNotAllowed": Explanation(
        "The region is not open to this tenant.", "Name a region of `Tenant.status.regions`, or let an operator open this one"
    ),
    "RegionNotFound": Explanation("The region does not exist yet.", "Declare the Region, or correct `spec.region`"),
    "RoleNotDeclared": Explanation(
        "An Identity or an IdentityProvider grants a role that no installed app declares. It counts once an app declares it.",
        "Correct the role, or install the app",
    ),
    "UsernameReserved": Explanation("The username `admin` belongs to the engine itself.", "Choose another username"),
}
SECRETS: Explanations = {
    "NoClearPassword": Explanation(
        "The password of a foreign engine's `admin` is stored as a hash, but the engine needs clear text.",
        "Set the Secret again: `tenantry secret set NAMESPACE/NAME password=- --for environment`",
    ),
    "SecretKeyMissing": Explanation("The Secret lacks the key that the object names.", "Set the key, or correct `secretRef.key`"),
    "SecretLost": Explanation(
        "The engine can no longer read the client secret of an identity provider.", "Set the client secret again"
    ),
    "SecretMissing": Explanation("The Secret does not exist yet.", "Create it, in the namespace of the object that refers to it"),
    "SecretNotFound": Explanation(
        "The Secret does not exist yet.", "Create it, in the namespace of the object that refers to it"
    ),
    "SecretNotLabelled": Explanation(
        "The Secret lacks the label `tenantry.dev/credential` for this kind of object, so it is not read.",
        "Add the label that the message names, if the Secret is meant for this object",
    ),
    "SecretNotText": Explanation("The value of the Secret's key is not UTF-8 text.", "Set the key again, as text"),
    "SecretUnreadable": Explanation(
        "The file with the console's client secret cannot be read.", "Check `signIn.clientSecret` and the mounted file"
    ),
}
TENANTS: Explanations = {
    "DeletingContents": Explanation(
        "A deletion waits for the objects inside. `status.deletion.blockers` names them.",
        "Wait, or look at the conditions of the objects that block it",
    ),
    "EnvironmentProtected": Explanation(
        "The tenant is not deleted because an environment has `deletionProtection: true`.",
        "Set `spec.deletionProtection` of that environment to false",
    ),
    "HostTaken": Explanation("Another environment uses the host that the two slugs would give.", "Choose another `spec.slug`"),
    "NamespaceDeleting": Explanation("A namespace of that name is still being deleted.", "Wait until it is gone"),
    "NamespaceMissing": Explanation("The namespace of the tenant does not exist yet.", _NOTHING),
    "NamespaceNotEmpty": Explanation(
        "The namespace holds objects that are not this Tenant's.",
        "Delete them, or annotate the namespace as the page of the Tenant says",
    ),
    "NamespaceTaken": Explanation(
        "The namespace belongs to another tenant, is reserved, or lacks the label of this tenant.",
        "Choose another namespace, or label it `tenantry.dev/tenant: NAME`",
    ),
    "NotDeleted": Explanation(
        "The object in the list of blockers is not deleted yet.", "Wait, or look at the conditions of that object"
    ),
    "Protected": Explanation("The environment has `deletionProtection: true`.", "Set it to false, and the deletion goes on"),
    "QuotaReached": Explanation(
        "The tenant has as many environments, or as many bytes or requests, as its quota allows.",
        "Remove what is not needed, or let an operator raise `Tenant.spec.quota`",
    ),
    "SlugInvalid": Explanation("There is no `slug`, and the name of the object cannot be one.", "Set `spec.slug`"),
    "SlugTaken": Explanation("Another object uses the slug, and had it first.", "Choose another `spec.slug`"),
    "TenantDeleting": Explanation(
        "The tenant is being deleted, and takes nothing new.", "Wait, or declare it for another tenant"
    ),
    "TenantNotFound": Explanation("The namespace belongs to no Tenant yet.", "Declare the Tenant, or use the namespace of one"),
    "TenantReplaced": Explanation(
        "The Tenant of the User was deleted, and another one has its name.",
        "Delete the User, and declare it again for the new Tenant if that is meant",
    ),
    "TenantSlugTaken": Explanation(
        "The tenant lost its slug to another tenant, and with it its hosts.", "Give the tenant another slug"
    ),
}
STANDING: Explanations = {
    "AsDeclared": Explanation("The engine does not differ from its declaration.", "Nothing"),
    "Cancelled": Explanation(
        "A person cancelled the Operation.", "Edit the object, or run `tenantry reconcile KIND/NAME` to begin again"
    ),
    "Deleted": Explanation("The deletion is done, and the object disappears.", "Nothing"),
    "EngineDiffers": Explanation(
        "Somebody changed the engine, and `driftPolicy: Warn` leaves it as it is. The message lists the differences.",
        "Declare the change, revert it in the engine, or set `driftPolicy: Correct`",
    ),
    "Failed": Explanation("The Operation failed without a reason of its own.", "Run `tenantry logs OPERATION`"),
    "InternalError": Explanation(
        "The platform met an error that nobody foresaw. It tries again.",
        "Report the message with the bundle of `tenantry doctor --bundle FILE`",
    ),
    "NotApplied": Explanation("A plan cannot write the object yet.", "Read the message: it names what has to exist first"),
    "NotConverging": Explanation(
        "A reconcile makes the same changes again and again. This is a bug.",
        "Report the message with the bundle of `tenantry doctor --bundle FILE`",
    ),
    "OperationFailed": Explanation(
        "The Operation of the request failed. The message has its reason.", "Run `tenantry logs OPERATION`"
    ),
    "Queued": Explanation("The Operation has not begun yet.", "Wait"),
    "ReconciledTooOften": Explanation(
        "The object was reconciled more than 30 times within an hour although nothing changed.",
        "Find out which client or controller writes to it, or to an object that it names",
    ),
    "Running": Explanation("The Operation is being carried out.", "Wait, or follow it with `tenantry logs OPERATION -f`"),
    "Succeeded": Explanation("Everything is as declared.", "Nothing"),
    "Suspended": Explanation("The object is suspended, so Tenantry does not act on it.", "Run `tenantry resume KIND/NAME`"),
}
