import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules } from '../down.ts';
import { type KindChecks, type SeededDifference, setAnnotation, setField } from '../seeded-differences.ts';
import { annotation, at, listAt, nameOf, unequal, type View } from '../view.ts';
import { shownNode } from './cluster-scoped.ts';
import { rootCa, superConfigMapName } from './config.ts';
import { containersOf, forbidden, isFinished, isGated, isPreset, withoutRefused } from './pod-admission.ts';

const rules: DownRules = {
  kind: 'pods',
  what: 'Pod',
  expected(own) {
    if (forbidden(withoutRefused(own)) !== undefined || isPreset(own) || isGated(own)) return 'no';
    return isFinished(own) ? 'may' : 'yes';
  },
  compare: (own, superObject, view) => [
    ...compareSpec(withoutRefused(own), superObject),
    ...findTokens(superObject),
    ...compareStatus(withoutRefused(own), superObject, view),
  ],
};

function comparePods(view: View): string[] {
  const found = compareDown(rules, view);
  for (const own of view.own.pods) {
    if (own.metadata.deletionTimestamp === undefined) continue;
    const { namespace = '', name = '' } = own.metadata;
    const superObject = view.superObject('pods', namespace, name);
    if (superObject !== undefined && superObject.metadata.deletionTimestamp === undefined) {
      found.push(`Pod ${nameOf(own)}: is being deleted in the tenant only`);
    }
  }
  return found;
}

/** Fields of a container that go down as they are. */
const containerFields = [
  'image',
  'command',
  'args',
  'workingDir',
  'resources',
  'livenessProbe',
  'readinessProbe',
  'startupProbe',
  'lifecycle',
  'ports',
  'securityContext',
  'imagePullPolicy',
  'restartPolicy',
];
const specFields = [
  'restartPolicy',
  'terminationGracePeriodSeconds',
  'activeDeadlineSeconds',
  'serviceAccountName',
  'nodeSelector',
  'hostname',
];

/** What the tenant did not have when the pod went down has another name there; the rest of a reference is the same. */
function withoutLateNames(superObject: KubeObject): KubeObject {
  return JSON.parse(JSON.stringify(superObject).replaceAll('"skerry-late-', '"')) as KubeObject;
}

function compareSpec(own: KubeObject, there: KubeObject): string[] {
  const superObject = withoutLateNames(there);
  const found = specFields.flatMap((field) =>
    unequal(at(own, 'spec', field), at(superObject, 'spec', field), field),
  );
  const names = (pod: KubeObject): unknown[] => containersOf(pod).map((container) => container['name']);
  found.push(...unequal(names(own), names(superObject), 'containers'));
  for (const container of containersOf(own)) {
    const other = containersOf(superObject).find(({ name }) => name === container['name']);
    if (other === undefined) continue;
    for (const field of containerFields) {
      found.push(...unequal(container[field], other[field], `${field} of container ${container['name']}`));
    }
    found.push(...compareEnv(container, other));
  }
  for (const volume of listAt(own, 'spec', 'volumes')) {
    const other = listAt(superObject, 'spec', 'volumes').find(({ name }) => name === volume['name']);
    if (other === undefined) found.push(`volume ${volume['name']} is missing in the super cluster`);
    else found.push(...compareVolume(volume, other));
  }
  const refusal = forbidden(superObject);
  if (refusal !== undefined) found.push(`the super cluster's has ${refusal}`);
  return found;
}

/** Values are the same; a reference to the tenant's CA is to its copy. */
function compareEnv(container: Record<string, unknown>, other: Record<string, unknown>): string[] {
  return listAt(container, 'env').flatMap((variable) => {
    const present = listAt(other, 'env').find(({ name }) => name === variable['name']);
    if (at(variable, 'valueFrom', 'fieldRef') !== undefined) return [];
    const configMap = at<string>(variable, 'valueFrom', 'configMapKeyRef', 'name');
    if (configMap === rootCa) return [];
    return unequal(variable, present, `variable ${variable['name']}`);
  });
}

function compareVolume(volume: Record<string, unknown>, other: Record<string, unknown>): string[] {
  const what = `volume ${volume['name']}`;
  const configMap = at<string>(volume, 'configMap', 'name');
  return [
    ...unequal(
      configMap === undefined ? undefined : superConfigMapName(configMap),
      at(other, 'configMap', 'name'),
      what,
    ),
    ...unequal(volume['secret'], other['secret'], what),
    ...unequal(volume['emptyDir'], other['emptyDir'], what),
    ...unequal(volume['persistentVolumeClaim'], other['persistentVolumeClaim'], what),
  ];
}

/** Sync rule `pod-tokens`: nothing in the super cluster's pod opens the super cluster. */
function findTokens(superObject: KubeObject): string[] {
  const found: string[] = [];
  if (at(superObject, 'spec', 'automountServiceAccountToken') !== false) found.push('its token is mounted');
  for (const volume of listAt(superObject, 'spec', 'volumes')) {
    for (const source of listAt(volume, 'projected', 'sources')) {
      if (source['serviceAccountToken'] !== undefined) found.push(`volume ${volume['name']} holds a token`);
    }
  }
  return found;
}

function compareStatus(own: KubeObject, superObject: KubeObject, view: View): string[] {
  const node = at<string>(superObject, 'spec', 'nodeName');
  const superNode = view.superSide.nodes.find(({ metadata }) => metadata.name === node);
  const shown = superNode && shownNode(view, superNode);
  const hidden = view.tenant.nodesHidden;
  const found = unequal(at(own, 'spec', 'nodeName'), hidden ? shown?.metadata.name : node, 'node');
  let hostIP = at<string>(superObject, 'status', 'hostIP');
  // Of a hidden node the address is the one that the tenant reaches it by.
  if (hidden && hostIP !== undefined) hostIP = at<string>(shown, 'status', 'addresses', '0', 'address');
  found.push(...unequal(at(own, 'status', 'hostIP'), hostIP, 'hostIP'));
  for (const field of ['phase', 'podIP', 'podIPs', 'startTime', 'reason']) {
    found.push(...unequal(at(own, 'status', field), at(superObject, 'status', field), field));
  }
  if (node !== undefined && annotation(own, 'skerry.dev/super-uid') !== superObject.metadata.uid) {
    found.push('it is bound for another pod of the super cluster');
  }
  const conditions = (pod: KubeObject): unknown =>
    Object.fromEntries(listAt(pod, 'status', 'conditions').map(({ type, status }) => [type, status]));
  found.push(...unequal(conditions(own), conditions(superObject), 'conditions'));
  for (const field of ['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses']) {
    const states = (pod: KubeObject): unknown =>
      listAt(pod, 'status', field).map(({ name, ready, started, restartCount, state }) => ({
        name,
        ready,
        started,
        restartCount,
        state,
      }));
    found.push(...unequal(states(own), states(superObject), field));
  }
  return found;
}

const inPods: SeededDifference[] = [
  {
    what: 'a pod is missing',
    plant: (c) => c.remove('superSide', 'pods', c.superObject('pods', 'web')),
    message: /Pod shop\/web-\S+: is not in the super/,
  },
  {
    what: 'a pod has outlived its T',
    plant: (c) => c.remove('own', 'pods', c.tenantObject('pods', 'web')),
    message: /Pod \S+ of the super cluster has no counterpart/,
  },
  {
    what: 'a pod is there twice',
    plant(c) {
      const twin = structuredClone(c.superObject('pods', 'web'));
      twin.metadata.name = 'twin';
      c.superSide.pods.push(twin);
    },
    message: /twice/,
  },
  {
    what: 'a pod belongs to an earlier T of its name',
    plant: (c) => setAnnotation(c.superObject('pods', 'web'), 'skerry.dev/uid', 'earlier'),
    message: /annotation skerry.dev\/uid is earlier/,
  },
  {
    what: 'a pod runs another image',
    plant: (c) => setField(c.superObject('pods', 'web'), ['spec', 'containers', 0, 'image'], 'other'),
    message: /image of container main/,
  },
  {
    what: 'phases differ',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['status', 'phase'], 'Pending'),
    message: /phase: "Pending"/,
  },
  {
    what: 'addresses differ',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['status', 'podIP'], '1.2.3.4'),
    message: /podIP/,
  },
  {
    what: 'nodes differ',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['spec', 'nodeName'], 'moon'),
    message: /node: "moon"/,
  },
  {
    what: 'readiness differs',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['status', 'containerStatuses', 0, 'ready'], false),
    message: /containerStatuses/,
  },
  {
    what: "a pod opens the super cluster's API server",
    plant: (c) =>
      setField(c.superObject('pods', 'web'), ['spec', 'volumes', 0], {
        name: 'token',
        projected: { sources: [{ serviceAccountToken: { path: 'token' } }] },
      }),
    message: /volume token holds a token/,
  },
  {
    what: 'a pod is privileged in the super cluster',
    plant: (c) =>
      setField(c.superObject('pods', 'web'), ['spec', 'containers', 0, 'securityContext'], {
        privileged: true,
      }),
    message: /has privileged/,
  },
  {
    what: 'a pod is being deleted in the tenant only',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['metadata', 'deletionTimestamp'], 'now'),
    message: /in the tenant only/,
  },
  {
    what: 'a pod is being deleted in the super cluster only',
    plant: (c) => setField(c.superObject('pods', 'web'), ['metadata', 'deletionTimestamp'], 'now'),
    message: /in the super cluster only/,
  },
  {
    what: 'a pod that is forbidden is down',
    plant: (c) => setField(c.tenantObject('pods', 'web'), ['spec', 'hostNetwork'], true),
    message: /is in the super cluster and should not be/,
  },
];

export const podChecks: KindChecks = {
  compare: [comparePods],
  seeded: [...inPods],
};
