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

{{/* What the chart says itself, and what the values say beside it, which win where the
  schema lets them. An embedded store stays below the volume that it is on. */}}
{{- define "sidecall.config" -}}
{{- $own := dict
  "listen" (list (include "sidecall.address" .))
  "operator" "unix:///var/lib/sidecall/operator.sock"
  "instance" "${env:POD_NAME}"
  "pins" (dict "path" "/var/lib/sidecall/sidecall.pins") -}}
{{- if .Values.config.store -}}
{{- $_ := set $own "journal" (dict "path" "/var/lib/sidecall/sidecall.journal") -}}
{{- else -}}
{{- $_ := set $own "store" (dict "embedded" (dict
  "path" "/var/lib/sidecall/sidecall.db"
  "max_bytes" (printf "%dMiB" (div (mul 3 .Values.stateMiB) 4)))) -}}
{{- end -}}
{{ merge (deepCopy .Values.config) $own | toYaml }}
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
    {{- with .Values.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
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
    {{- with .Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
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
  emptyDir: {sizeLimit: {{ printf "%dMi" (int64 .Values.stateMiB) }}}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
