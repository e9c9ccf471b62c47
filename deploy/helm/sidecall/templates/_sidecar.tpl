{{/* The parts of the sidecar, for this chart and for others: a pod of yours has
  initContainers: with include "sidecall.container", and volumes: with include
  "sidecall.volumes". Mount sidecall-socket into the agent. */}}

{{- define "sidecall.name" -}}
{{- printf "%s-sidecall" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sidecall.labels" -}}
app.kubernetes.io/name: sidecall
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sidecall.secret" -}}
{{- default (include "sidecall.name" .) .Values.existingSecret -}}
{{- end -}}

{{- define "sidecall.hasSecret" -}}
{{- if or .Values.existingSecret .Values.secrets -}}yes{{- end -}}
{{- end -}}

{{- define "sidecall.address" -}}
{{- if eq .Values.transport "unix" -}}unix:///run/sidecall/sidecall.sock{{- else -}}tcp://127.0.0.1:8470{{- end -}}
{{- end -}}

{{- define "sidecall.config" -}}
listen: [{{ include "sidecall.address" . | quote }}]
operator: unix:///var/lib/sidecall/operator.sock
instance: "${env:POD_NAME}"
{{- if .Values.redis.addrs }}
store:
  redis:
    addrs: {{ .Values.redis.addrs | toJson }}
    {{- with .Values.redis.masterName }}
    master_name: {{ . | quote }}
    {{- end }}
    {{- if .Values.redis.cluster }}
    cluster: true
    {{- end }}
    {{- with .Values.redis.waitReplicas }}
    wait_replicas: {{ . }}
    {{- end }}
    {{- with .Values.redis.passwordSecret }}
    password: {{ printf "${file:/etc/sidecall/secrets/%s}" . | quote }}
    {{- end }}
journal: {path: /var/lib/sidecall/sidecall.journal}
{{- else }}
store:
  embedded: {path: /var/lib/sidecall/sidecall.db}
{{- end }}
pins: {path: /var/lib/sidecall/sidecall.pins}
{{- with .Values.config }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sidecall.container" -}}
- name: sidecall
  {{- with .Values.image }}
  image: {{ ternary (printf "%s@%s" .repository .digest) (printf "%s:%s" .repository (default $.Chart.AppVersion .tag)) (ne .digest "") | quote }}
  {{- end }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args: [serve, --config, /etc/sidecall/config/sidecall.yaml]
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: GOMEMLIMIT
      valueFrom: {resourceFieldRef: {containerName: sidecall, resource: requests.memory}}
    {{- with .Values.telemetry.endpoint }}
    - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
    - {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: http/protobuf}
    {{- end }}
  startupProbe:
    exec: {command: [/usr/bin/sidecall, ready]}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: {{ .Values.startupSeconds }}
  readinessProbe:
    exec: {command: [/usr/bin/sidecall, ready]}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  livenessProbe:
    exec: {command: [/usr/bin/sidecall, ready, --live]}
    periodSeconds: 20
    timeoutSeconds: 5
    failureThreshold: 6
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: {{ .Values.runAsUser }}
    runAsGroup: {{ .Values.runAsUser }}
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
    - {name: sidecall-config, mountPath: /etc/sidecall/config, readOnly: true}
    {{- if include "sidecall.hasSecret" . }}
    - {name: sidecall-secrets, mountPath: /etc/sidecall/secrets, readOnly: true}
    {{- end }}
    - {name: sidecall-socket, mountPath: /run/sidecall}
    - {name: sidecall-state, mountPath: /var/lib/sidecall}
{{- end -}}

{{- define "sidecall.volumes" -}}
- name: sidecall-config
  configMap: {name: {{ include "sidecall.name" . }}}
{{- if include "sidecall.hasSecret" . }}
- name: sidecall-secrets
  secret: {secretName: {{ include "sidecall.secret" . }}, defaultMode: 0o440}
{{- end }}
- name: sidecall-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: sidecall-state
  emptyDir: {sizeLimit: 256Mi}
{{- end -}}
