import type { KubeObject } from '../../../../kube/index.ts';
import type { ComponentPlan } from '../../../control-plane/index.ts';
import { imageOf } from '../../images.ts';
import {
  apiServer,
  componentLabel,
  dependsOnAnnotation,
  filesHashAnnotation,
  idLabel,
  labelsOf,
  namespaceOf,
} from '../names.ts';
import { dataDirectory, filesDirectory, filesVolume, filled, hashOfFiles } from './files.ts';
import { probesOf } from './probes.ts';

export interface WorkloadOptions {
  /** In place of the upstream registry. */
  imageRegistry?: string;
  /** For components that keep data; without it they have only what a pod has, and lose it with the pod. */
  storage?: Storage;
}

export interface Storage {
  /** The super cluster's default when absent. */
  className?: string;
  size: string;
}

const nobody = 65532;
const defaultRequests = { cpu: '10m', memory: '64Mi' };

/** What runs a component. Fixed fields depend on the plan only, so that equal plans never restart anything. */
export function statefulSetManifest(
  id: string,
  component: ComponentPlan,
  options: WorkloadOptions,
): KubeObject {
  const { name, dependsOn, replicas = 1 } = component;
  const claims = component.data === true && options.storage !== undefined ? [claim(options.storage)] : [];
  return {
    metadata: {
      name,
      namespace: namespaceOf(id),
      labels: labelsOf(id, name),
      annotations: { [dependsOnAnnotation]: dependsOn.join(',') },
    },
    spec: {
      replicas,
      serviceName: name,
      // All at once when it starts; an update still takes one after the other.
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate' },
      revisionHistoryLimit: 2,
      // Where nobody can be asked, whoever stays up for a moment counts as ready. Of several, the next one is replaced
      // when the network has had time to hear of the one before.
      ...(component.probe === undefined || replicas > 1 ? { minReadySeconds: 5 } : {}),
      selector: { matchLabels: { [idLabel]: id, [componentLabel]: name } },
      template: {
        metadata: {
          labels: labelsOf(id, name),
          annotations: { [filesHashAnnotation]: hashOfFiles(component) },
        },
        spec: podSpec(id, component, { image: imageFor(component, options), hasClaim: claims.length > 0 }),
      },
      ...(claims.length === 0 ? {} : { volumeClaimTemplates: claims }),
    },
  };
}

function podSpec(
  id: string,
  component: ComponentPlan,
  { image, hasClaim }: { image: string; hasClaim: boolean },
): Record<string, unknown> {
  const { name, files, replicas = 1 } = component;
  const hasData = usesData(component);
  return {
    automountServiceAccountToken: false,
    // Names of a tenant's services are no business of its control plane.
    enableServiceLinks: false,
    terminationGracePeriodSeconds: Math.ceil(component.stopTimeoutMs / 1000),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: nobody,
      runAsGroup: nobody,
      fsGroup: nobody,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
    ...(replicas > 1 ? { affinity: apart(id, name) } : {}),
    containers: [
      {
        name,
        image,
        imagePullPolicy: 'IfNotPresent',
        command: [programOf(component)],
        args: component.args.map(filled),
        env: Object.entries(component.env).map(([variable, value]) => ({
          name: variable,
          value: filled(value),
        })),
        ports: component.ports.map((port) => ({
          name: port.name.slice(0, 15),
          containerPort: port.port,
          protocol: 'TCP',
        })),
        resources: { requests: defaultRequests, ...component.resources },
        ...probesOf(component),
        terminationMessagePolicy: 'FallbackToLogsOnError',
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: capabilitiesOf(component),
        },
        volumeMounts: [
          ...(files.length === 0 ? [] : [{ name: 'files', mountPath: filesDirectory, readOnly: true }]),
          ...(hasData ? [{ name: 'data', mountPath: dataDirectory }] : []),
        ],
      },
    ],
    volumes: [
      ...(files.length === 0 ? [] : [filesVolume(component)]),
      ...(hasData && !hasClaim ? [{ name: 'data', emptyDir: {} }] : []),
    ],
  };
}

/** A machine that fails should take one of them, where there is more than one machine. */
function apart(id: string, component: string): Record<string, unknown> {
  const labelSelector = { matchLabels: { [idLabel]: id, [componentLabel]: component } };
  return {
    podAntiAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 100, podAffinityTerm: { topologyKey: 'kubernetes.io/hostname', labelSelector } },
        { weight: 50, podAffinityTerm: { topologyKey: 'topology.kubernetes.io/zone', labelSelector } },
      ],
    },
  };
}

// Upstream's program carries cap_net_bind_service as a file capability with the effective bit: the kernel refuses to
// execute it where that is dropped too (kubernetes/kubernetes#100914). The level restricted allows this one.
function capabilitiesOf({ name }: ComponentPlan): Record<string, string[]> {
  return name === apiServer ? { drop: ['ALL'], add: ['NET_BIND_SERVICE'] } : { drop: ['ALL'] };
}

function usesData({ data, args, env, files }: ComponentPlan): boolean {
  const texts = [...args, ...Object.values(env), ...files.map(({ content }) => content)];
  return data === true || texts.some((text) => text.includes('${data}'));
}

function programOf({ binary }: ComponentPlan): string {
  return 'name' in binary ? binary.name : binary.command;
}

function imageFor({ binary, name }: ComponentPlan, { imageRegistry }: WorkloadOptions): string {
  if ('name' in binary) return imageOf(binary, imageRegistry);
  throw new TypeError(`${name} is a program of this machine, for which there is no image`);
}

function claim({ className, size }: Storage): Record<string, unknown> {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      ...(className === undefined ? {} : { storageClassName: className }),
      resources: { requests: { storage: size } },
      volumeMode: 'Filesystem',
    },
  };
}
