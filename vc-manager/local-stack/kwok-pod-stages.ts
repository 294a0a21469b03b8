import { type Stage, stage } from './kwok-stage.ts';
import { exitCodeAnnotation, runForAnnotation } from './simulation.ts';

const living = '.metadata.deletionTimestamp == null';
const running = `(${living}) and .status.phase == "Running"`;
// By label, not by owner: pods that a tenant's Job made have no owner in the super cluster.
const ofJob =
  '(.metadata.labels["batch.kubernetes.io/job-name"] != null) and .spec.restartPolicy != "Always"';
const gatesOpen =
  '(([.spec.readinessGates[]?.conditionType] - [.status.conditions[]? | select(.status == "True") | .type]) | length == 0)';
const shownReady = '([.status.conditions[]? | select(.type == "Ready" and .status == "True")] | length > 0)';
const outdated = `((.status.observedGeneration // 0) != (.metadata.generation // 0) or (${gatesOpen}) != (${shownReady}))`;

/** Sets $ready: whether all readiness gates of the pod are open. */
const findReady = `
{{ $ready := "True" }}
{{ range .spec.readinessGates }}
{{ $gate := .conditionType }}
{{ $open := false }}
{{ range $.status.conditions }}{{ if and (eq .type $gate) (eq .status "True") }}{{ $open = true }}{{ end }}{{ end }}
{{ if not $open }}{{ $ready = "False" }}{{ end }}
{{ end }}
`;

const readyCondition = `
- type: Ready
  status: {{ $ready | Quote }}
  {{ if eq $ready "False" }}
  reason: ReadinessGatesNotReady
  message: a readiness gate is not open
  {{ end }}
  lastTransitionTime: {{ $now | Quote }}
  observedGeneration: {{ $generation }}
`;

function condition(type: string, status: 'True' | 'False', reason?: string): string {
  return `
- type: ${type}
  status: "${status}"
  ${reason === undefined ? '' : `reason: ${reason}`}
  lastTransitionTime: {{ $now | Quote }}
  observedGeneration: {{ $generation }}
`;
}

/** Statuses of a list of containers, all in the state that the template of `state` renders. */
function containers(field: string, list: string, ready: boolean, state: string): string {
  return `
{{ if .spec.${list} }}
${field}:
{{ range .spec.${list} }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ printf "simulated://%s" .image | Quote }}
  containerID: {{ printf "simulated://%s/%s" $uid .name | Quote }}
  restartCount: 0
  ready: ${ready}
  started: ${ready}
  state: ${state}
{{ end }}
{{ end }}
`;
}

const runningState = '{ running: { startedAt: {{ $started | Quote }} } }';
const endedState =
  '{ terminated: { exitCode: {{ $code }}, reason: {{ $reason }}, startedAt: {{ $started | Quote }}, finishedAt: {{ $now | Quote }} } }';

const common = `
{{ $now := Now }}
{{ $uid := .metadata.uid }}
{{ $generation := or .metadata.generation 0 }}
{{ $started := or .status.startTime $now }}
observedGeneration: {{ $generation }}
`;

const runningContainers = `
${containers('containerStatuses', 'containers', true, runningState)}
${containers('ephemeralContainerStatuses', 'ephemeralContainers', false, runningState)}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ printf "simulated://%s" .image | Quote }}
  containerID: {{ printf "simulated://%s/%s" $uid .name | Quote }}
  restartCount: 0
  ready: true
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: ${runningState}
  {{ else }}
  started: false
  state: { terminated: { exitCode: 0, reason: Completed, startedAt: {{ $started | Quote }}, finishedAt: {{ $started | Quote }} } }
  {{ end }}
{{ end }}
{{ end }}
`;

const address = `
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs: [{{ range $i, $ip := . }}{{ if $i }}, {{ end }}{ ip: {{ $ip | Quote }} }{{ end }}]
{{ end }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs: [{{ range $i, $ip := . }}{{ if $i }}, {{ end }}{ ip: {{ $ip | Quote }} }{{ end }}]
{{ end }}
`;

function ended(reason: string): string {
  return `
conditions:
${condition('ContainersReady', 'False', reason)}
${condition('Ready', 'False', reason)}
${containers('containerStatuses', 'containers', false, endedState)}
`;
}

/** How a simulated pod lives. For each state of a pod at most one of them applies. */
export const podStages: readonly Stage[] = [
  stage({
    name: 'pod-start',
    kind: 'Pod',
    when: `(${living}) and .status.phase == "Pending"`,
    status: `
${common}
${findReady}
phase: Running
startTime: {{ $started | Quote }}
${address}
conditions:
${condition('PodReadyToStartContainers', 'True')}
${condition('Initialized', 'True')}
${condition('ContainersReady', 'True')}
${readyCondition}
${runningContainers}
`,
  }),
  stage({
    name: 'pod-follow',
    kind: 'Pod',
    when: `(${running}) and (${outdated})`,
    status: `
${common}
${findReady}
conditions:
${readyCondition}
${runningContainers}
`,
  }),
  stage({
    name: 'pod-complete',
    kind: 'Pod',
    when: `(${running}) and (${outdated} | not) and (${ofJob})`,
    delayMs: 1000,
    delayFrom: `.metadata.annotations["${runForAnnotation}"]`,
    status: `
${common}
{{ $code := or (index (or .metadata.annotations dict) "${exitCodeAnnotation}") "0" }}
{{ $reason := "Completed" }}
{{ if ne $code "0" }}{{ $reason = "Error" }}{{ end }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
${ended('PodCompleted')}
`,
  }),
  // Changes nothing. A kwok that has been started anew learns from it which addresses are taken.
  stage({
    name: 'pod-remember-address',
    kind: 'Pod',
    when: `(${running}) and (${outdated} | not) and (${ofJob} | not)`,
    status: `phase: {{ .status.phase }}`,
  }),
  // As a kubelet does it: first the last status, then, once that is seen, the end.
  stage({
    name: 'pod-stop',
    kind: 'Pod',
    when: `(${living} | not) and .status.phase == "Running"`,
    delayMs: 50,
    status: `
${common}
{{ $code := 0 }}
{{ $reason := "Completed" }}
phase: Succeeded
${ended('PodCompleted')}
`,
  }),
  // Once: that deletion shows as a change first, to a grace of 0.
  stage({
    name: 'pod-remove',
    kind: 'Pod',
    when: `(${living} | not) and .status.phase != "Running" and .metadata.deletionGracePeriodSeconds != 0`,
    delete: true,
  }),
  // A server that was killed in the middle of that deletion has left the pod so. Of one that goes, as nearly all do,
  // kwok has heard long before, and forgets about this.
  stage({
    name: 'pod-remove-again',
    kind: 'Pod',
    when: `(${living} | not) and .status.phase != "Running" and .metadata.deletionGracePeriodSeconds == 0`,
    delayMs: 10_000,
    delete: true,
  }),
];
