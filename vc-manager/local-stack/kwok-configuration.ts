import { stringify } from 'yaml';
import { exitCodeAnnotation, runForAnnotation } from './simulated-nodes.ts';

/** One object of kwok's Stage API, as far as it is used here. */
interface Stage {
  apiVersion: 'kwok.x-k8s.io/v1alpha1';
  kind: 'Stage';
  metadata: { name: string };
  spec: Record<string, unknown>;
}

interface StageOptions {
  name: string;
  kind: 'Node' | 'Pod';
  /** jq condition on the object. Of several stages that apply kwok takes one at random: let only one apply. */
  when: string;
  delayMs?: number;
  /** With it the delay is a random one from `delayMs` to this. */
  longestDelayMs?: number;
  /** jq expression for a duration such as `5s` that takes the place of `delayMs` where it yields something. */
  delayFrom?: string;
  /** Go template of the status to merge in. */
  status?: string;
  /**
   * Delete the object, which kwok does by its name alone. So a stage that deletes must not change anything before: that
   * would be one more event, and one more deletion for it, of the object that has the name by then.
   */
  delete?: boolean;
}

function stage(options: StageOptions): Stage {
  const steps: Record<string, unknown>[] = [];
  if (options.status !== undefined) {
    steps.push({ patch: { subresource: 'status', type: 'strategic', template: patchOf(options.status) } });
  }
  if (options.delete) steps.push({ delete: true });
  const delay = {
    ...(options.delayMs === undefined ? {} : { durationMilliseconds: options.delayMs }),
    ...(options.longestDelayMs === undefined ? {} : { jitterDurationMilliseconds: options.longestDelayMs }),
    ...(options.delayFrom === undefined ? {} : { durationFrom: { jq: { expression: options.delayFrom } } }),
  };
  return {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'Stage',
    metadata: { name: options.name },
    spec: {
      resourceRef: { apiGroup: 'v1', kind: options.kind },
      // An expression without a result does not exist for kwok, so a condition that is not met has none.
      selector: {
        matchExpressions: [
          { jq: { key: `if ${options.when} then "yes" else empty end`, operator: 'Exists' } },
        ],
      },
      ...(Object.keys(delay).length === 0 ? {} : { delay }),
      steps,
    },
  };
}

/** kwok sends it to the object that has the name by then; the UID makes the server refuse it for another object. */
function patchOf(status: string): string {
  return `
metadata:
  uid: {{ .metadata.uid | Quote }}
status:
${status.trim().replaceAll(/^(?=.)/gm, '  ')}
`.trim();
}

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
const podStages: readonly Stage[] = [
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

/** kwok's configuration file: how simulated nodes and the pods on them go from state to state. */
export function kwokConfiguration(): string {
  const documents = [options, nodeReady, nodeHeartbeat, ...podStages];
  return documents.map((document) => stringify(document, { lineWidth: 0 })).join('---\n');
}

const options = {
  apiVersion: 'config.kwok.x-k8s.io/v1alpha1',
  kind: 'KwokConfiguration',
  metadata: { name: 'skerry' },
  // kwok fills in no defaults beside what a file sets, and refuses to run with zeros.
  options: {
    cidr: '10.0.0.0/24',
    enablePodsOnNodeSyncListPager: true,
    enablePodsOnNodeSyncStreamWatch: false,
    nodeLeaseParallelism: 4,
    nodePlayStageParallelism: 4,
    // A burst of pods is what simulated nodes are for.
    podPlayStageParallelism: 16,
    podsOnNodeSyncParallelism: 4,
  },
};

const isReady = '[.status.conditions[]? | select(.type == "Ready" and .status == "True")] | length > 0';

const conditions = `
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: Simulated
  message: this node is simulated, nothing runs on it
  lastHeartbeatTime: {{ $now | Quote }}
`;

const nodeReady: Stage = stage({
  name: 'node-ready',
  kind: 'Node',
  when: `(${isReady}) | not`,
  status: `
${conditions}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
phase: Running
`,
});

// In place of kwok's leases: a kwok that was started anew leaves all nodes and pods alone until the
// leases of the one before have run out. The controller manager is told to be patient accordingly.
const nodeHeartbeat: Stage = stage({
  name: 'node-heartbeat',
  kind: 'Node',
  when: isReady,
  delayMs: 60_000,
  longestDelayMs: 90_000,
  status: `
${conditions}
{{ end }}
`,
});
