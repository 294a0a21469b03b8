import { stringify } from 'yaml';
import { podStages } from './kwok-pod-stages.ts';
import { type Stage, stage } from './kwok-stage.ts';

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
