{{/* Values that contradict each other, each with what to change. What a value may be by itself is in
     values.schema.json. */}}
{{- define "ingress-daemonset-controller.refused" -}}
{{- range $value, $image := dict "image" .Values.image "healthChecker.image" .Values.healthChecker.image }}
{{- if contains "@" $image.repository }}
{{- fail (printf "%s.repository %s has a digest: write that into %s.digest" $value $image.repository $value) }}
{{- end }}
{{- if regexMatch ":[^/]*$" $image.repository }}
{{- fail (printf "%s.repository %s has a tag: write that into %s.tag" $value $image.repository $value) }}
{{- end }}
{{- end }}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels }}
{{- if hasKey $labels "app.kubernetes.io/name" }}
{{- fail (printf "%s has app.kubernetes.io/name, by which the pods are selected: set nameOverride" $value) }}
{{- end }}
{{- end }}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false: set serviceAccount.name to the account that is there" }}
{{- end }}
{{- range .Values.env }}
{{- if eq .name "HEALTHCHECKER_IMAGE" }}
{{- fail "env has HEALTHCHECKER_IMAGE, which the chart sets: set healthChecker.image" }}
{{- else if eq .name "POD_NAMESPACE" }}
{{- fail "env has POD_NAMESPACE, which the chart sets: leave it out" }}
{{- end }}
{{- end }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "analysis-providers" "analysis-secret" "assume-roles") }}
{{- fail (printf "extraVolumes has %s, which is a volume of the chart: give it another name" .name) }}
{{- end }}
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- fail "podMonitor.enabled and serviceMonitor.enabled are both true, and all metrics would be read twice: set one" }}
{{- end }}
{{- range $value, $monitor := dict "podMonitor" .Values.podMonitor "serviceMonitor" .Values.serviceMonitor }}
{{- if and $monitor.enabled $.Values.metrics.secure (not $monitor.authorization) }}
{{- fail (printf "metrics.secure is true: set %s.authorization to what Prometheus is to show, such as {credentials: {name: SECRET, key: token}}" $value) }}
{{- end }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and (include "ingress-daemonset-controller.isSet" .maxUnavailable) (include "ingress-daemonset-controller.isSet" .minAvailable) }}
{{- fail "podDisruptionBudget.maxUnavailable and podDisruptionBudget.minAvailable are both set: set one" }}
{{- end }}
{{- end }}
{{- end }}
