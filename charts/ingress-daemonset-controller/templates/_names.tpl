{{/* The value of app.kubernetes.io/name, by which the controller's pods are selected. */}}
{{- define "ingress-daemonset-controller.name" -}}
{{- default "ingress-daemonset-controller" .Values.nameOverride }}
{{- end }}

{{/* What the objects are called, whatever the release is called: a cluster has one controller. */}}
{{- define "ingress-daemonset-controller.fullname" -}}
{{- default (include "ingress-daemonset-controller.name" .) .Values.fullnameOverride }}
{{- end }}

{{- define "ingress-daemonset-controller.serviceAccountName" -}}
{{- default (include "ingress-daemonset-controller.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{/* What runs, as a label may say it. */}}
{{- define "ingress-daemonset-controller.version" -}}
{{- default .Chart.AppVersion .Values.image.tag | replace "+" "_" | trunc 63 | trimAll "-_." }}
{{- end }}

{{/* A Deployment's selector cannot change: it has no label that an upgrade gives another value. */}}
{{- define "ingress-daemonset-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ingress-daemonset-controller.name" . | quote }}
{{- end }}

{{- define "ingress-daemonset-controller.labels" -}}
{{- $standard := dict
  "app.kubernetes.io/name" (include "ingress-daemonset-controller.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" (include "ingress-daemonset-controller.version" .)
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_")) }}
{{- toYaml (merge $standard .Values.commonLabels) }}
{{- end }}

{{/* Those of the pods change only with what runs there, so that an upgrade restarts them only then. */}}
{{- define "ingress-daemonset-controller.podLabels" -}}
{{- $standard := dict
  "app.kubernetes.io/name" (include "ingress-daemonset-controller.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" (include "ingress-daemonset-controller.version" .) }}
{{- toYaml (merge $standard .Values.podLabels .Values.commonLabels) }}
{{- end }}

{{/* Whether a value says something, also where that is 0: neither an empty text nor null. */}}
{{- define "ingress-daemonset-controller.isSet" -}}
{{- if not (or (kindIs "invalid" .) (eq (toString .) "")) }}set{{ end }}
{{- end }}

{{/* The reference of an image: of repository, tag and digest. */}}
{{- define "ingress-daemonset-controller.reference" -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "ingress-daemonset-controller.image" -}}
{{- $image := .Values.image }}
{{- if not (or $image.tag $image.digest) }}
{{- $image = merge (dict "tag" .Chart.AppVersion) (omit $image "tag") }}
{{- end }}
{{- include "ingress-daemonset-controller.reference" $image }}
{{- end }}

{{- define "ingress-daemonset-controller.checkerImage" -}}
{{- $image := .Values.healthChecker.image }}
{{- if or $image.tag $image.digest }}
{{- include "ingress-daemonset-controller.reference" (merge (dict "repository" (default .Values.image.repository $image.repository)) $image) }}
{{- else if $image.repository }}
{{- include "ingress-daemonset-controller.reference" (dict "repository" $image.repository "tag" (default .Chart.AppVersion .Values.image.tag)) }}
{{- else }}
{{- include "ingress-daemonset-controller.image" . }}
{{- end }}
{{- end }}
