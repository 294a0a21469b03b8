import type { KubeObject } from '../../../../kube/index.ts';
import { compareDown, type DownRules, type Expectation } from '../down.ts';
import { at, label, listAt, unequal } from '../raw.ts';
import type { View } from '../view.ts';
import { containersOf, forbidden, isGated, withoutRefused } from './pod-admission.ts';
import { isTokenSecret } from './tokens.ts';

export const rootCa = 'kube-root-ca.crt';

export function superConfigMapName(name: string): string {
  return name === rootCa ? `tenant-${rootCa}` : name;
}

/** ConfigMaps and Secrets go down while a pod or an Ingress uses them, when they are labelled so, or all of them. */
export function compareConfig(view: View): string[] {
  const used = usedByOthers(view);
  const expected = (kind: 'configmaps' | 'secrets', own: KubeObject): Expectation => {
    const { namespace, name = '' } = own.metadata;
    // Reserved: what is called so in the super cluster is Skerry's.
    if (name === `tenant-${rootCa}` || name.startsWith('skerry-')) return 'no';
    const all = kind === 'configmaps' ? view.tenant.configMaps : view.tenant.secrets;
    if (all === 'all' || label(own, 'skerry.dev/sync') === 'true') return 'yes';
    return used.get(`${kind}/${namespace}/${name}`) ?? 'no';
  };
  const configMaps: DownRules = {
    kind: 'configmaps',
    what: 'ConfigMap',
    superName: superConfigMapName,
    expected: (own) => expected('configmaps', own),
    compare: (own, superObject) =>
      ['data', 'binaryData', 'immutable'].flatMap((field) => unequal(own[field], superObject[field], field)),
  };
  const secrets: DownRules = {
    kind: 'secrets',
    what: 'Secret',
    isForeign: isTokenSecret,
    expected: (own) => expected('secrets', own),
    compare(own, superObject) {
      const type = own['type'] === 'kubernetes.io/service-account-token' ? 'Opaque' : own['type'];
      return [
        ...unequal(type, superObject['type'], 'type'),
        ...['data', 'immutable'].flatMap((field) => unequal(own[field], superObject[field], field)),
      ];
    },
  };
  return [...compareDown(configMaps, view), ...compareDown(secrets, view)];
}

/**
 * `kind/namespace/name` of what pods and Ingresses refer to: it has to be there for pods that are in the super cluster, must not be for those
 * that are refused, and may be for others (one that is about to go down, or has ended and was tidied away there).
 */
function usedByOthers(view: View): Map<string, Expectation> {
  const used = new Map<string, Expectation>();
  for (const pod of view.own.pods) {
    const { namespace = '', name = '' } = pod.metadata;
    const isThere = view.superObject('pods', namespace, name) !== undefined;
    if (!isThere && (forbidden(withoutRefused(pod)) !== undefined || isGated(pod))) continue;
    const use = (kind: 'configmaps' | 'secrets', reference: string | undefined): void => {
      const key = `${kind}/${namespace}/${reference}`;
      if (reference !== undefined && used.get(key) !== 'yes') used.set(key, isThere ? 'yes' : 'may');
    };
    for (const { name: secret } of listAt<{ name: string }>(pod, 'spec', 'imagePullSecrets'))
      use('secrets', secret);
    for (const volume of listAt(pod, 'spec', 'volumes')) {
      use('configmaps', at(volume, 'configMap', 'name'));
      use('secrets', at(volume, 'secret', 'secretName'));
      for (const source of listAt(volume, 'projected', 'sources')) {
        use('configmaps', at(source, 'configMap', 'name'));
        use('secrets', at(source, 'secret', 'name'));
      }
    }
    for (const container of containersOf(pod)) {
      for (const source of listAt(container, 'envFrom')) {
        use('configmaps', at(source, 'configMapRef', 'name'));
        use('secrets', at(source, 'secretRef', 'name'));
      }
      for (const variable of listAt(container, 'env')) {
        use('configmaps', at(variable, 'valueFrom', 'configMapKeyRef', 'name'));
        use('secrets', at(variable, 'valueFrom', 'secretKeyRef', 'name'));
      }
    }
  }
  for (const ingress of view.own.ingresses) {
    const { namespace = '', name = '' } = ingress.metadata;
    const isThere = view.superObject('ingresses', namespace, name) !== undefined;
    for (const { secretName } of listAt<{ secretName?: string }>(ingress, 'spec', 'tls')) {
      const key = `secrets/${namespace}/${secretName}`;
      if (used.get(key) !== 'yes') used.set(key, isThere ? 'yes' : 'may');
    }
  }
  return used;
}
