{{- define "tenantry.guard" -}}
{{- if ne .Release.Namespace "tenantry-system" }}
{{- fail (printf "Tenantry runs in the namespace tenantry-system, not %s: helm install tenantry ... --namespace tenantry-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- end }}

{{- define "tenantry.selector" -}}
app.kubernetes.io/name: tenantry
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "tenantry.labels" -}}
app.kubernetes.io/name: tenantry
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: tenantry
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end }}

{{- define "tenantry.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tenantry.adminSecret" -}}
{{ .Values.admin.existingSecret | default "tenantry-admin" }}
{{- end }}

{{- define "tenantry.account" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:tenantry-{{ .name }}
{{- end }}

{{- /* In CEL: is the request by one of our accounts, those in tenants' namespaces included? */}}
{{- define "tenantry.isOurs" -}}
request.userInfo.username in ['{{ include "tenantry.account" (dict "root" . "name" "operator") }}', '{{ include "tenantry.account" (dict "root" . "name" "api") }}', '{{ include "tenantry.account" (dict "root" . "name" "uninstall") }}'] || request.userInfo.username.matches('^system:serviceaccount:[^:]+:tenantry-(admin|viewer)$')
{{- end }}

{{- /* In CEL: has a person confirmed the deletion of the object? */}}
{{- define "tenantry.isConfirmed" -}}
oldObject.metadata.?annotations[?'tenantry.dev/deletion-confirmed'].orValue('') == 'true'
{{- end }}

{{- /* What every pod of the chart has alike: the restricted Pod Security Standard. */}}
{{- define "tenantry.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tenantry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Settings of both processes. */}}
{{- define "tenantry.env" -}}
- name: TENANTRY_CLUSTER__NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: TENANTRY_CLUSTER__POD
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: TENANTRY_CLUSTER__LEASE
  value: tenantry-operator
- name: TENANTRY_CLUSTER__API_URL
  value: http://tenantry-api.{{ .Release.Namespace }}.svc:8080
- name: TENANTRY_CLUSTER__BLOBS
  value: {{ .Values.blobs.s3.url | default "file:///data" | quote }}
- name: TENANTRY_CLUSTER__IMAGE
  value: {{ include "tenantry.image" . | quote }}
- name: TENANTRY_CLUSTER__IMAGE_PULL_POLICY
  value: {{ .Values.image.pullPolicy }}
- name: TENANTRY_CLUSTER__ADMIN_SECRET
  value: {{ include "tenantry.adminSecret" . }}
- name: TENANTRY_PUBLIC_URL
  value: {{ .Values.publicUrl | default (printf "http://tenantry-api.%s.svc:8080" .Release.Namespace) | quote }}
- name: TENANTRY_CLUSTER__ENGINES
  value: /etc/tenantry/engines
{{- if .Values.defaultPool }}
- name: TENANTRY_CLUSTER__DEFAULT_POOL
  value: {{ .Values.defaultPool | quote }}
{{- end }}
{{- with .Values.tracing.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if .Values.caBundle }}
- name: SSL_CERT_FILE
  value: /etc/tenantry/engines/ca.crt
- name: GIT_SSL_CAINFO
  value: /etc/tenantry/engines/ca.crt
{{- end }}
{{- with .Values.proxy.https }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.proxy.http }}
- name: http_proxy
  value: {{ . | quote }}
{{- end }}
{{- if or .Values.proxy.http .Values.proxy.https }}
- name: NO_PROXY
  value: {{ append (without (splitList "," .Values.proxy.noProxy) "") "localhost,127.0.0.1,.svc,.cluster.local" | join "," | quote }}
{{- end }}
{{- with .Values.proxy.declared }}
- name: TENANTRY_OUTBOUND__PROXY
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "tenantry.issuers" -}}
{{- $signIn := .Values.signIn -}}
{{- if $signIn.issuer -}}
{{- if hasKey .Values.settings "TENANTRY_ISSUERS" }}{{ fail "signIn.issuer and settings.TENANTRY_ISSUERS name the same setting: write the list in settings only" }}{{ end -}}
{{- $issuer := dict "issuer" $signIn.issuer "audience" ($signIn.audience | default $signIn.clientId) "role_claim" $signIn.roleClaim "tenant_claim" $signIn.tenantClaim "name" $signIn.name "client_id" (required "signIn.clientId is required with signIn.issuer" $signIn.clientId) -}}
{{- if $signIn.existingSecret }}{{ $_ := set $issuer "client_secret" "/etc/tenantry/sign-in/client-secret" }}{{ end -}}
{{- list $issuer | toJson -}}
{{- end -}}
{{- end -}}

{{- define "tenantry.enginesData" -}}
{{- $engines := .Values.engines -}}
{{- $env := $engines.extraEnv -}}
{{- with .Values.tracing.endpoint }}
{{- $env = append $env (dict "name" "OTEL_EXPORTER_OTLP_ENDPOINT" "value" .) -}}
{{- end }}
engines.json: {{ dict "sizes" $engines.sizes "env" $env "volumes" $engines.extraVolumes "volumeMounts" $engines.extraVolumeMounts "metrics" .Values.metrics.engines.enabled "logFormat" .Values.logFormat | toJson | quote }}
{{- with .Values.caBundle }}
ca.crt: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "tenantry.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "tenantry.selector" . | nindent 6 }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "tenantry.selector" . | nindent 6 }}
{{- end }}

{{- /* Where pods of one component run. */}}
{{- define "tenantry.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "tenantry.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "tenantry.hasVolume" -}}
{{- if not .Values.blobs.s3.url }}true{{ end }}
{{- end }}
