import { createHash } from 'node:crypto';
import { isIP, isIPv6 } from 'node:net';
import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../../control-plane/plan.ts';
import type { EgressTarget } from '../../os/egress-filter.ts';
import { imageOf } from '../images.ts';
import {
  apiServer,
  apiServerPort,
  datastore,
  dependsOnAnnotation,
  filesHashAnnotation,
  filesSecretOf,
  labelsOf,
  namespaceOf,
  templateHashAnnotation,
  virtualClusterAnnotation,
} from './types.ts';

/** Of data without a claim, which is on the disk of its node: twice what the etcd of the packaged template may keep. */
const emptyDataSize = '4Gi';
const filesDirectory = '/etc/skerry';
const dataDirectory = '/var/lib/skerry';

/** With the placeholders of a plan filled in. */
function filled(text: string): string {
  return text.replaceAll('${files}', filesDirectory).replaceAll('${data}', dataDirectory);
}

function metadataOf(id: string, component: string): KubeObject['metadata'] {
  return { name: component, namespace: namespaceOf(id), labels: labelsOf(id, component) };
}

/** Labels by which the pods of a component are found. */
function selectorOf(id: string, component: string): Record<string, string> {
  return { [labelKeys.id]: id, [labelKeys.component]: component };
}

/** A component's files: keys among them, so a Secret. */
export function filesSecret(id: string, { name, files }: ComponentPlan): KubeObject {
  return {
    metadata: { ...metadataOf(id, name), name: filesSecretOf(name) },
    type: 'Opaque',
    data: Object.fromEntries(
      files.map(({ path, content }) => [keyOf(path), Buffer.from(filled(content)).toString('base64')]),
    ),
  };
}

/** The volume that shows them under their own paths. Its group may read them: no process in the pod is root. */
function filesVolume({ name, files }: ComponentPlan): Record<string, unknown> {
  return {
    name: 'files',
    secret: {
      secretName: filesSecretOf(name),
      defaultMode: 0o440,
      items: files.map(({ path }) => ({ key: keyOf(path), path })),
    },
  };
}

function hashOfFiles({ files }: ComponentPlan): string {
  const content = files.map(({ path, content: text, mode }) => [path, text, mode]).sort();
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 16);
}

/** A key has no slashes; two paths never become one key. */
function keyOf(path: string): string {
  return path.replaceAll('_', '__').replaceAll('/', '_.');
}

const periodSeconds = 1;

/**
 * Asked by the kubelet at the pod's own address and without credentials, so whatever the plan's probe says of host and
 * files does not matter. Until a component has come up for the first time only the startup probe judges it.
 */
function probesOf({ probe, name }: ComponentPlan): Record<string, unknown> {
  if (probe === undefined) return {};
  const { scheme, port, path, timeoutMs } = probe;
  const get = (at: string) => ({ httpGet: { scheme: scheme.toUpperCase(), port, path: at } });
  const live = get(livePath(name, path));
  return {
    startupProbe: {
      ...live,
      periodSeconds,
      timeoutSeconds: 5,
      failureThreshold: Math.ceil(timeoutMs / 1000 / periodSeconds),
    },
    readinessProbe: { ...get(path), periodSeconds, timeoutSeconds: 5, failureThreshold: 2 },
    livenessProbe: { ...live, periodSeconds, timeoutSeconds: 10, failureThreshold: 30 },
  };
}

/** An API server that has lost its datastore is not mended by a restart. */
function livePath(name: string, path: string): string {
  if (path !== '/readyz') return path;
  return name === apiServer ? '/livez?exclude=etcd' : '/livez';
}

/** Nothing in it may have more rights than the strictest of Kubernetes' own levels gives. */
export function namespaceManifest(id: string, virtualCluster?: string): KubeObject {
  const level = 'restricted';
  return {
    metadata: {
      name: namespaceOf(id),
      labels: {
        ...labelsOf(id),
        'pod-security.kubernetes.io/enforce': level,
        'pod-security.kubernetes.io/warn': level,
        'pod-security.kubernetes.io/audit': level,
      },
      ...(virtualCluster === undefined
        ? {}
        : { annotations: { [virtualClusterAnnotation]: virtualCluster } }),
    },
  };
}

/**
 * The one address of a component, however many there are of it. Made before they are: it stands in certificates.
 * `isWaking`: it leads to pods that are not ready, too.
 */
export function serviceManifest(
  id: string,
  component: string,
  targetPort: number,
  isWaking = false,
): KubeObject {
  return {
    metadata: metadataOf(id, component),
    spec: {
      type: 'ClusterIP',
      selector: selectorOf(id, component),
      publishNotReadyAddresses: isWaking,
      ports: [
        {
          name: 'main',
          protocol: 'TCP',
          port: component === apiServer ? apiServerPort : targetPort,
          targetPort,
        },
      ],
    },
  };
}

/** Who drains nodes takes one of several at a time. A single one has none: its node could never be drained. */
export function disruptionBudget(id: string, { name, replicas = 1 }: ComponentPlan): KubeObject | undefined {
  if (replicas === 1) return undefined;
  return {
    metadata: metadataOf(id, name),
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: selectorOf(id, name) },
    },
  };
}

export interface NetworkOptions {
  /** Namespace of manager and syncer. */
  systemNamespace: string;
  /** Where syncers answer as kubelets. Their pods serve metrics too, which are no tenant's business. */
  kubeletPort?: number;
  /** What API servers may dial beyond what every one needs: a syncer or a datastore outside of the cluster. */
  egress: readonly EgressTarget[];
}

type Peer = Record<string, unknown>;

/**
 * Which connections are allowed. A tenant decides what its API server dials: webhooks, aggregated APIs and addresses of Nodes
 * are objects of its own. So API servers reach their datastore, DNS, the syncer, and pods and services of their own
 * tenant, and nothing else. Whether a cluster enforces policies is up to its network.
 */
export function networkPolicies(plan: ControlPlanePlan, options: NetworkOptions): KubeObject[] {
  const policies = [policy(plan.id, 'default-deny', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] })];
  for (const component of plan.components) {
    if (component.name === apiServer) policies.push(ofApiServer(plan, component, options));
    else if (component.name === datastore) policies.push(ofDatastore(plan.id, component, options));
    else policies.push(ofClient(plan, component));
  }
  return policies;
}

function ofApiServer(
  { id, network, components }: ControlPlanePlan,
  { name, ports }: ComponentPlan,
  { systemNamespace, egress, kubeletPort = 10_250 }: NetworkOptions,
): KubeObject {
  const own = components.find((each) => each.name === datastore);
  const to: { to: Peer[]; ports?: Peer[] }[] = [dns];
  if (own !== undefined) to.push({ to: [pods(datastore)], ports: tcp(mainPort(own)) });
  if (network?.datastore !== undefined) to.push(toDatastore(network.datastore));
  // What API servers take for kubelets.
  to.push({ to: [podsOf(systemNamespace, 'syncer')], ports: tcp(kubeletPort) });
  if (network !== undefined) {
    to.push({
      to: [
        { namespaceSelector: { matchLabels: { [labelKeys.tenant]: network.tenantUid } } },
        // For networks that judge before a service's address is translated.
        { ipBlock: { cidr: network.serviceCIDR } },
      ],
    });
  }
  for (const { to: cidr, ports: range } of egress)
    to.push({
      to: cidr === undefined ? [] : [{ ipBlock: { cidr } }],
      ...(range && { ports: [{ protocol: 'TCP', port: range[0], endPort: range[1] }] }),
    });
  return policy(id, name, {
    podSelector: selector(name),
    policyTypes: ['Ingress', 'Egress'],
    // Pods of the tenant, people, syncer and manager: who may do what, it decides itself.
    ingress: [{ ports: ports.flatMap(({ port }) => tcp(port)) }],
    egress: to,
  });
}

/** Only the API servers of the same control plane, and the manager, which takes snapshots. */
function ofDatastore(id: string, component: ComponentPlan, { systemNamespace }: NetworkOptions): KubeObject {
  return policy(id, component.name, {
    podSelector: selector(component.name),
    policyTypes: ['Ingress', 'Egress'],
    ingress: [
      { from: [pods(apiServer), podsOf(systemNamespace, 'manager')], ports: tcp(mainPort(component)) },
    ],
  });
}

function podsOf(namespace: string, component: string): Peer {
  return {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
    podSelector: { matchLabels: { 'app.kubernetes.io/component': component } },
  };
}

/** Everything else is a client of the API server. */
function ofClient({ id, components }: ControlPlanePlan, { name }: ComponentPlan): KubeObject {
  const server = components.find((each) => each.name === apiServer);
  return policy(id, name, {
    podSelector: selector(name),
    policyTypes: ['Ingress', 'Egress'],
    egress: [dns, ...(server === undefined ? [] : [{ to: [pods(apiServer)], ports: tcp(mainPort(server)) }])],
  });
}

const dns = {
  to: [
    {
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
      podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
    },
  ],
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
};

/** A policy knows addresses and pods, but no names: of a name outside of the cluster only the port is known. */
function toDatastore(endpoint: string): { to: Peer[]; ports: Peer[] } {
  const url = new URL(endpoint);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const ports = tcp(Number(url.port || 443));
  if (isIP(host) !== 0) return { to: [{ ipBlock: { cidr: `${host}/${isIPv6(host) ? 128 : 32}` } }], ports };
  const namespace = /^[^.]+\.([^.]+)\.svc(\.|$)/.exec(host)?.[1];
  const to =
    namespace === undefined
      ? [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }]
      : [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } }];
  return { to, ports };
}

/** The port that has the component's name, or its first one. */
function mainPort({ name, ports }: ComponentPlan): number {
  return (ports.find((each) => each.name === name) ?? ports[0])?.port ?? 0;
}

function tcp(port: number): Peer[] {
  return [{ protocol: 'TCP', port }];
}

function selector(component: string): Peer {
  return { matchLabels: { [labelKeys.component]: component } };
}

function pods(component: string): Peer {
  return { podSelector: selector(component) };
}

function policy(id: string, name: string, spec: Record<string, unknown>): KubeObject {
  return {
    metadata: { name, namespace: namespaceOf(id), labels: { ...labelsOf(id), [labelKeys.id]: id } },
    spec,
  };
}

/**
 * What a StatefulSet is while a second replica takes the place of the first one, whose ordinal is below `partition` as
 * long as it is to stay as it is. No digest of its template: a manager that finds it so goes on with it.
 */
export function inReplacement(
  manifest: KubeObject,
  size: { replicas: number; partition: number },
): KubeObject {
  const { metadata } = manifest;
  return {
    ...manifest,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [templateHashAnnotation]: '' } },
    spec: {
      ...(manifest['spec'] as object),
      replicas: size.replicas,
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: size.partition } },
    },
  };
}

interface WorkloadOptions {
  /** In place of the upstream registry. */
  imageRegistry?: string | undefined;
  /** For components that keep data; without it they have only what a pod has, and lose it with the pod. */
  storage?: Storage | undefined;
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
  const template = {
    metadata: {
      labels: labelsOf(id, name),
      annotations: { [filesHashAnnotation]: hashOfFiles(component) },
    },
    spec: podSpec(id, component, { image: imageFor(component, options), hasClaim: claims.length > 0 }),
  };
  return {
    metadata: {
      ...metadataOf(id, name),
      annotations: {
        [dependsOnAnnotation]: dependsOn.join(','),
        [templateHashAnnotation]: createHash('sha256').update(JSON.stringify(template)).digest('hex'),
      },
    },
    spec: {
      replicas,
      serviceName: name,
      // All at once when it starts; an update still takes one after the other.
      podManagementPolicy: 'Parallel',
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      revisionHistoryLimit: 2,
      // Without a probe, a container that stays up for a moment counts as ready. Of several, the next one is replaced
      // when the network has had time to hear of the one before.
      ...(component.probe === undefined || replicas > 1 ? { minReadySeconds: 5 } : {}),
      selector: { matchLabels: selectorOf(id, name) },
      template,
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
        args: [...component.args, ...drainOf(component)].map(filled),
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
      ...(hasData && !hasClaim ? [{ name: 'data', emptyDir: { sizeLimit: emptyDataSize } }] : []),
    ],
  };
}

/** An API server serves on while the network hears that it leaves: another one has taken its place by then. */
function drainOf(component: ComponentPlan): string[] {
  const flag = '--shutdown-delay-duration';
  const isServer = component.name === apiServer && programOf(component) === apiServer;
  return isServer && !component.args.some((arg) => arg.startsWith(`${flag}=`)) ? [`${flag}=3s`] : [];
}

/** A machine that fails should take one of them, where there is more than one machine. */
function apart(id: string, component: string): Record<string, unknown> {
  const labelSelector = { matchLabels: selectorOf(id, component) };
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
