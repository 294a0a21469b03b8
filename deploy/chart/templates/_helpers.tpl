{{- define "skerry.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Selects pods: what may never change for a release. Takes (dict "root" . "component" NAME). */}}
{{- define "skerry.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "skerry.labels" -}}
{{ include "skerry.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "skerry.image" -}}
{{- with .Values.image -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "skerry.etcdEndpoint" -}}
{{- if .Values.etcd.enabled -}}
https://{{ include "skerry.fullname" . }}-etcd.{{ .Release.Namespace }}.svc:2379
{{- else -}}
{{- required "etcd.endpoint: say where your datastore is, or set etcd.enabled" .Values.etcd.endpoint -}}
{{- end -}}
{{- end -}}

{{/* Of its JSON gateway, for the manager; empty: at the endpoint. */}}
{{- define "skerry.etcdHttpEndpoint" -}}
{{- if .Values.etcd.enabled -}}
https://{{ include "skerry.fullname" . }}-etcd.{{ .Release.Namespace }}.svc:2378
{{- else -}}
{{- .Values.etcd.httpEndpoint -}}
{{- end -}}
{{- end -}}

{{/*
Ends an install whose etcd would wait for its volume for ever. helm asks the cluster, and finds nothing where it has none to
ask, as for "helm template". It ends with whatever it may not read, so it asks only with rbac.create: whoever grants the
syncer's rights may read all of this.
*/}}
{{- define "skerry.refuseWithoutStorage" -}}
{{- if and .Release.IsInstall .Values.rbac.create (not .Values.etcd.storage.className) (lookup "v1" "Namespace" "" "kube-system") -}}
{{- $claim := lookup "v1" "PersistentVolumeClaim" .Release.Namespace (printf "data-%s-etcd-0" (include "skerry.fullname" .)) -}}
{{- $isFound := eq (($claim.status).phase | default "") "Bound" -}}
{{- $classes := list -}}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items -}}
{{- $classes = append $classes .metadata.name -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- range list "storageclass.kubernetes.io/is-default-class" "storageclass.beta.kubernetes.io/is-default-class" -}}
{{- if eq (get $annotations .) "true" -}}{{- $isFound = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $isFound -}}
{{- range (lookup "v1" "PersistentVolume" "" "").items -}}
{{- if and (not .spec.storageClassName) (eq ((.status).phase | default "") "Available") -}}{{- $isFound = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not $isFound) $classes -}}
{{- fail (printf "etcd would wait for a volume: no StorageClass of this cluster is the default. Name one with --set etcd.storage.className=NAME (there is %s), or make one the default" (join ", " $classes)) -}}
{{- else if not $isFound -}}
{{- fail "etcd would wait for a volume: this cluster has no StorageClass. Install a provisioner of volumes whose class is the default, name a class that it will have with --set etcd.storage.className=NAME, or use an etcd of yours: --set etcd.enabled=false --set etcd.endpoint=URL" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Metadata of a pod's template. Takes (dict "root" . "component" NAME). */}}
{{- define "skerry.podMetadata" -}}
labels:
  {{- include "skerry.labels" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods go, and who they are: what all of them have in common. Takes (dict "root" . "component" NAME). */}}
{{- define "skerry.podSpec" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with (index .root.Values .component).nodeSelector | default .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "skerry.selector" . | nindent 14 }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "skerry.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: { drop: [ALL] }
{{- end -}}

{{/* Rules that are bound in all namespaces, and those for the release's own, if any. Takes (dict "root" . "component" NAME "cluster" RULES "namespace" RULES). */}}
{{- define "skerry.rbac" -}}
{{- $name := printf "%s-%s" (include "skerry.fullname" .root) .component -}}
{{- $labels := include "skerry.labels" . -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml .cluster | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }} }
subjects:
  - { kind: ServiceAccount, name: {{ $name }}, namespace: {{ .root.Release.Namespace }} }
{{- if .namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
  {{- toYaml .namespace | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }} }
subjects:
  - { kind: ServiceAccount, name: {{ $name }}, namespace: {{ .root.Release.Namespace }} }
{{- end }}
{{- end -}}

{{/* Takes (dict "root" . "component" NAME). */}}
{{- define "skerry.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "skerry.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "skerry.labels" . | nindent 4 }}
  {{- with .root.Values.serviceAccounts.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{/* Takes (dict "root" . "component" NAME "maxUnavailable" NUMBER). */}}
{{- define "skerry.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "skerry.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "skerry.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "skerry.selector" . | nindent 6 }}
{{- end -}}

{{/* Whoever may read metrics on this port. Takes (dict "root" . "port" NAME). */}}
{{- define "skerry.metricsIngress" -}}
- ports: [{ port: {{ .port }}, protocol: TCP }]
  from:
    {{- range .root.Values.networkPolicies.metricsFrom }}
    - namespaceSelector:
        matchLabels:
          {{- toYaml . | nindent 10 }}
    {{- else }}
    # Names of tenants are no business of other tenants.
    - namespaceSelector:
        matchExpressions:
          - { key: skerry.dev/tenant, operator: DoesNotExist }
          - { key: skerry.dev/id, operator: DoesNotExist }
    {{- end }}
{{- end -}}

{{/* The API servers of tenants, whose namespaces the manager makes. */}}
{{- define "skerry.tenantApiServers" -}}
- namespaceSelector:
    matchExpressions: [{ key: skerry.dev/id, operator: Exists }]
  podSelector:
    matchLabels: { skerry.dev/component: kube-apiserver }
{{- end -}}

{{/* The port at which people reach the gateway: kubeconfigs name it. */}}
{{- define "skerry.gatewayPort" -}}
{{- with .Values.gateway }}
{{- if .port -}}
{{- .port -}}
{{- else if eq .service.type "NodePort" -}}
{{- required "gateway.service.nodePort: kubeconfigs name it, so choose one of the cluster's range (30000 to 32767), or say with gateway.port at which port people reach the gateway" .service.nodePort -}}
{{- else -}}
{{- .service.port -}}
{{- end -}}
{{- end -}}
{{- end -}}
