{{/*
A component is a dict: root, key (its prefix among the values), name (its objects are RELEASE-NAME) and app (Volcano's label).
*/}}
{{- define "volcanoio.scheduler" -}}
{"key": "scheduler", "name": "{{ .Release.Name }}-scheduler", "role": "scheduler", "app": "volcano-scheduler"}
{{- end }}
{{- define "volcanoio.controllers" -}}
{"key": "controller", "name": "{{ .Release.Name }}-controllers", "role": "controllers", "app": "volcano-controller"}
{{- end }}
{{- define "volcanoio.admission" -}}
{"key": "admission", "name": "{{ .Release.Name }}-admission", "role": "admission", "app": "volcano-admission"}
{{- end }}

{{/* Labels of every object: Helm's, Volcano's app and common_labels, and "more". */}}
{{- define "volcanoio.labels" -}}
{{- $own := dict
    "app.kubernetes.io/name" "volcanoio"
    "app.kubernetes.io/instance" .root.Release.Name
    "app.kubernetes.io/version" .root.Chart.AppVersion
    "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- with .app }}{{ $_ := set $own "app" . }}{{ end }}
{{- toYaml (mustMerge (.more | default dict) (.root.Values.custom.common_labels | default dict) $own) }}
{{- end }}

{{- define "volcanoio.metadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .cluster }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels: {{- include "volcanoio.labels" . | nindent 4 }}
{{- end }}

{{/* Labels that select a component's pods. Volcano's, since a Deployment's selector cannot be changed by an upgrade. */}}
{{- define "volcanoio.selector" -}}
app: {{ .app }}
{{- end }}

{{- define "volcanoio.image" -}}
{{- $basic := .root.Values.basic }}
{{- $tag := get $basic (printf "%s_image_tag_version" .key) | default $basic.image_tag_version }}
{{- with $basic.image_registry }}{{ . }}/{{ end }}{{ get $basic (printf "%s_image_name" .key) -}}
:{{ $tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* schedulerNames of this release's scheduler and then of the others in the cluster, with commas. */}}
{{- define "volcanoio.schedulerNames" -}}
{{- $names := list }}
{{- range concat (splitList "," (.Values.custom.scheduler_name | default "volcano")) .Values.custom.further_scheduler_names }}
{{- $names = append $names (trim .) }}
{{- end }}
{{- join "," (uniq $names) }}
{{- end }}

{{/* --scheduler-name of the components that serve all schedulers of the cluster. */}}
{{- define "volcanoio.schedulerNameFlag" -}}
{{- $names := include "volcanoio.schedulerNames" . }}
{{- if ne $names "volcano" }}
- --scheduler-name={{ $names }}
{{- end }}
{{- end }}

{{/* Name of the scheduler's NodeShard. */}}
{{- define "volcanoio.shardingName" -}}
{{- .Values.custom.scheduler_sharding_name | default (include "volcanoio.schedulerNames" . | splitList "," | first) }}
{{- end }}

{{/* A ConfigMap's data: the override, or the file that `basic` names. */}}
{{- define "volcanoio.configuration" -}}
{{- $file := get .root.Values.basic (printf "%s_config_file" .key) }}
{{- $override := get .root.Values.custom (printf "%s_config_override" .key) }}
apiVersion: v1
kind: ConfigMap
{{ include "volcanoio.metadata" (mustMerge (dict "name" (printf "%s-%s-configmap" .root.Release.Name .key)) .) }}
data:
  {{ base $file }}: |
    {{- $override | default (.root.Files.Get $file) | trim | nindent 4 }}
{{- end }}

{{/* ServiceAccount, roles from files/rbac under the release's names, and bindings. */}}
{{- define "volcanoio.rights" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $renamed := dict }}
{{- range list "scheduler" "sharding" }}
{{- $_ := set $renamed (printf "volcano-%s-configmap" .) (printf "%s-%s-configmap" $root.Release.Name .) }}
{{- end }}
apiVersion: v1
kind: ServiceAccount
{{ include "volcanoio.metadata" (dict "root" $root "name" $name) }}
{{- range splitList "\n---\n" ($root.Files.Get (printf "files/rbac/%s.yaml" .role)) }}
{{- $role := fromYaml . }}
{{- $cluster := eq $role.kind "ClusterRole" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}
{{ include "volcanoio.metadata" (dict "root" $root "name" $name "cluster" $cluster) }}
rules:
  {{- range $role.rules }}
  - apiGroups: {{ toJson .apiGroups }}
    resources: {{ toJson .resources }}
    {{- with .resourceNames }}
    resourceNames:
      {{- range . }}
      - {{ get $renamed . | default . }}
      {{- end }}
    {{- end }}
    verbs: {{ toJson .verbs }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}Binding
{{ include "volcanoio.metadata" (dict "root" $root "name" (printf "%s-role" $name) "cluster" $cluster) }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $role.kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}

{{/* A Deployment up to its containers. */}}
{{- define "volcanoio.deployment" -}}
{{- $custom := .root.Values.custom }}
apiVersion: apps/v1
kind: Deployment
{{ include "volcanoio.metadata" (mustMerge (dict "more" (get $custom (printf "%s_labels" .key))) .) }}
spec:
  replicas: {{ get $custom (printf "%s_replicas" .key) }}
  selector:
    matchLabels: {{- include "volcanoio.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "volcanoio.labels" (mustMerge (dict "more" (get $custom (printf "%s_podLabels" .key))) .) | nindent 8 }}
    spec:
      serviceAccountName: {{ .name }}
      priorityClassName: system-cluster-critical
      {{- with .root.Values.basic.image_pull_secret }}
      imagePullSecrets:
        - name: {{ . }}
      {{- end }}
      {{- with get $custom (printf "%s_sc" .key) | default $custom.default_sc }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with get $custom (printf "%s_ns" .key) | default $custom.default_ns }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with get $custom (printf "%s_affinity" .key) | default $custom.default_affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with get $custom (printf "%s_tolerations" .key) | default $custom.default_tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "volcanoio.selector" $ | nindent 14 }}
        {{- end }}
{{- end }}

{{/* Flags of directories with code, KEY_KIND_dir among the values. */}}
{{- define "volcanoio.directories" -}}
{{- range $kind := list "plugins" "policies" "controllers" }}
{{- with get $.root.Values.custom (printf "%s_%s_dir" $.key $kind) }}
- --{{ $kind }}-dir={{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* What all containers have in common: image, probes on --healthz-address, resources, security. */}}
{{- define "volcanoio.container" -}}
{{- $custom := .root.Values.custom -}}
image: {{ include "volcanoio.image" . }}
imagePullPolicy: {{ .root.Values.basic.image_pull_policy }}
startupProbe:
  httpGet: {path: /healthz, port: healthz}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: healthz}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: healthz}
  periodSeconds: 5
  timeoutSeconds: 5
{{- with get $custom (printf "%s_resources" .key) }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with get $custom (printf "%s_main_csc" .key) | default $custom.default_csc }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The lease, which the leader fills in; it is in the chart so that it goes with the release. */}}
{{- define "volcanoio.lease" -}}
{{- if .root.Values.custom.leader_elect_enable }}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
{{ include "volcanoio.metadata" (mustMerge (dict "name" .lease) .) }}
{{- end }}
{{- end }}

{{/* Flags of leader election. */}}
{{- define "volcanoio.leaderElection" -}}
- --leader-elect={{ .Values.custom.leader_elect_enable }}
{{- if .Values.custom.leader_elect_enable }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
{{- end }}
{{- end }}

{{/* A Service on a component's pods: "service" is its name, "port", "target" and "portName". */}}
{{- define "volcanoio.service" -}}
apiVersion: v1
kind: Service
{{ include "volcanoio.metadata" (mustMerge (dict "name" .service) .) }}
spec:
  type: ClusterIP
  {{- with .root.Values.service.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with .root.Values.service.ipFamilies }}
  ipFamilies: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: {{ .portName }}
      port: {{ .port }}
      protocol: TCP
      targetPort: {{ .target }}
    {{- range .further }}
    - {name: {{ .name }}, port: {{ .port }}, protocol: TCP, targetPort: {{ .name }}}
    {{- end }}
  selector: {{- include "volcanoio.selector" . | nindent 4 }}
{{- end }}

{{- define "volcanoio.disruptionBudget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int (get .root.Values.custom (printf "%s_replicas" .key))) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "volcanoio.metadata" . }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "volcanoio.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Values of Volcano's chart without effect here: the patterns of values.schema.json. */}}
{{- define "volcanoio.withoutEffect.basic" -}}
^(agent_|agent_scheduler_|kube_|grafana_|prometheus_|hypernode_|crd_|admission_app_|admission_secret_|scheduler_app_)
{{- end }}
{{- define "volcanoio.withoutEffect.custom" -}}
^(agent_|agent_scheduler_|colocation_|controller_worker_|go_memlimit_|grafana_|hypernode_|ignored_webhook|kube_|metrics_|namespace_queue_|prometheus_|scheduler_(minimum_|node_worker_|percentage_)|webhooks_|admission_(certmanager|init_))
{{- end }}
