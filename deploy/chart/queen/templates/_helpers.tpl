{{- define "queen.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "queen.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "queen.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "queen.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Labels that select pods. Call with (dict "root" $ "component" "server"). */}}
{{- define "queen.selector" -}}
app.kubernetes.io/name: {{ include "queen.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "queen.labels" -}}
{{ include "queen.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "queen.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "queen.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "queen.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "queen.scheme" -}}
{{- if .Values.tls.existingSecret }}https{{ else }}http{{ end }}
{{- end }}

{{/* The servers as other pods and KEDA reach them. */}}
{{- define "queen.url" -}}
{{- printf "%s://%s.%s.svc:%v" (include "queen.scheme" .) (include "queen.fullname" .) .Release.Namespace .Values.service.port }}
{{- end }}

{{/* A value of an environment variable. Helm reads 1073741824 as 1.073741824e+09. */}}
{{- define "queen.envValue" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ . | int64 | toString | quote }}
{{- else -}}
{{ . | toString | quote }}
{{- end -}}
{{- end }}

{{/* The bytes of a quantity such as 2Gi, as a number. The schema allows no other units. */}}
{{- define "queen.bytes" -}}
{{- $units := dict "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $unit := regexFind "[a-zA-Z]+$" . -}}
{{- mulf (trimSuffix $unit . | float64) (get $units $unit | default 1) | int64 -}}
{{- end }}

{{- define "queen.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "queen.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The connection to the database. Call with (dict "root" $ "secret" NAME "key" KEY). */}}
{{- define "queen.databaseEnv" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- if .root.Values.database.ca.existingSecret }}
- name: PG_SSLMODE
  value: verify-full
- name: PG_SSLROOTCERT
  value: /etc/queen/postgresql/{{ .root.Values.database.ca.key }}
{{- end }}
{{- end }}

{{- define "queen.databaseSecret" -}}
{{- required "Set database.existingSecret to a Secret with the connection URL." .Values.database.existingSecret }}
{{- end }}

{{/* Volumes of servers and of the migration. */}}
{{- define "queen.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- with .Values.database.ca.existingSecret }}
- name: postgresql-ca
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{- define "queen.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.database.ca.existingSecret }}
- name: postgresql-ca
  mountPath: /etc/queen/postgresql
  readOnly: true
{{- end }}
{{- end }}

{{/* The authority of the servers' certificate, for clients. The private key stays out. */}}
{{- define "queen.caVolume" -}}
- name: tls
  secret:
    secretName: {{ .Values.tls.existingSecret }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}

{{- define "queen.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "queen.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ include "queen.scheme" .root | upper }}
periodSeconds: {{ .period }}
timeoutSeconds: 3
failureThreshold: {{ .failures }}
{{- end }}
