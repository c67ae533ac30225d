{{- /* Written by `make crds` from the registry of kinds. */}}

{{- define "tenantry.tenantKinds" -}}
[apps, environments, identities, identityproviders, packages, sources]
{{- end }}

{{- define "tenantry.reconciledKinds" -}}
[apps, environments, identities, identityproviders, packages, regions, sources, tenants, users]
{{- end }}

{{- define "tenantry.allKinds" -}}
[apps, environments, identities, identityproviders, operations, packages, regions, sources, tenants, users]
{{- end }}

{{- define "tenantry.statuses" -}}
[apps/status, environments/status, identities/status, identityproviders/status, packages/status, regions/status, sources/status, tenants/status, users/status]
{{- end }}

{{- define "tenantry.finalizers" -}}
[apps/finalizers, environments/finalizers, identities/finalizers, identityproviders/finalizers, packages/finalizers, regions/finalizers, sources/finalizers, tenants/finalizers, users/finalizers]
{{- end }}
