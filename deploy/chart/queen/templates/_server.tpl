{{/* The environment of a server. */}}
{{- define "queen.serverEnv" -}}
{{ include "queen.databaseEnv" (dict "root" . "secret" (include "queen.databaseSecret" .) "key" .Values.database.key) }}
- name: QUEEN_AUTH
  value: {{ .Values.auth.kinds | quote }}
{{- if .Values.tls.existingSecret }}
- name: QUEEN_TLS_CERTIFICATE
  value: /etc/queen/tls/tls.crt
- name: QUEEN_TLS_KEY
  value: /etc/queen/tls/tls.key
{{- else }}
- name: QUEEN_BEHIND_PROXY
  value: "true"
{{- end }}
- name: NUM_WORKERS
  value: {{ .Values.processes | toString | quote }}
- name: QUEEN_SHUTDOWN_SECONDS
  value: {{ .Values.shutdownSeconds | toString | quote }}
- name: QUEEN_AUTO_MIGRATE
  value: {{ not .Values.migrate.enabled | toString | quote }}
{{- if .Values.database.pgbouncer }}
- name: QUEEN_DB_PGBOUNCER
  value: "true"
{{- end }}
{{- if .Values.buffer.enabled }}
- name: FILE_BUFFER_DIR
  value: /var/lib/queen/buffer
- name: FILE_BUFFER_MAX_BYTES
  value: {{ include "queen.envValue" .Values.buffer.maxBytes }}
{{- end }}
{{- with .Values.auth.jwtSecret }}
{{- if .existingSecret }}
- name: JWT_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .Values.encryption }}
{{- if .existingSecret }}
- name: QUEEN_ENCRYPTION_KEYS
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ include "queen.envValue" $value }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The pod of a server: of a Deployment, or of a StatefulSet with a volume for the buffer. */}}
{{- define "queen.serverPod" -}}
metadata:
  labels:
    {{- include "queen.selector" (dict "root" . "component" "server") | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  # Otherwise a Service named queen sets QUEEN_PORT and others, which are not settings.
  enableServiceLinks: false
  automountServiceAccountToken: false
  serviceAccountName: {{ include "queen.serviceAccountName" . }}
  # preStop, then QUEEN_SHUTDOWN_SECONDS, then 10 seconds until the server kills its processes.
  terminationGracePeriodSeconds: {{ add 5 .Values.shutdownSeconds 10 }}
  securityContext:
    {{- include "queen.podSecurityContext" . | nindent 4 }}
  containers:
    - name: server
      image: {{ include "queen.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      securityContext:
        {{- include "queen.securityContext" . | nindent 8 }}
      ports:
        - name: http
          containerPort: 6632
      env:
        {{- include "queen.serverEnv" . | nindent 8 }}
      startupProbe:
        {{- include "queen.probe" (dict "root" . "path" "/livez" "period" 2 "failures" 60) | nindent 8 }}
      # Without the database, servers with a buffer still accept pushes: they stay in the endpoints.
      readinessProbe:
        {{- include "queen.probe" (dict "root" . "path" (ternary "/livez" "/readyz" .Values.buffer.enabled) "period" 3 "failures" 2) | nindent 8 }}
      livenessProbe:
        {{- include "queen.probe" (dict "root" . "path" "/livez" "period" 10 "failures" 3) | nindent 8 }}
      # Clients may still connect until all nodes have removed the endpoint.
      lifecycle:
        preStop:
          exec:
            command: [sleep, "5"]
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        {{- include "queen.volumeMounts" . | nindent 8 }}
        {{- if .Values.buffer.enabled }}
        - name: state
          mountPath: /var/lib/queen
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/queen/tls
          readOnly: true
        {{- end }}
  volumes:
    {{- include "queen.volumes" . | nindent 4 }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
    {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "queen.selector" (dict "root" . "component" "server") | nindent 10 }}
  {{- with include "queen.scheduling" . }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
