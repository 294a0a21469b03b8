import type { ControlPlanePlan } from '../../../control-plane/plan.ts';
import { renderPlan } from '../../../control-plane/render-plan.ts';
import { loadTemplates } from '../../../control-plane/template.ts';
import { exampleOptions } from '../../../control-plane/testing/example.ts';

const templates = await loadTemplates();

/** A plan as the manager makes it for this driver, from a packaged template. */
export function examplePlan(
  options: { template?: string; replicas?: number; version?: string; tokenKey?: string } = {},
): ControlPlanePlan {
  const { template: name = 'v1-36', replicas = 1, version, tokenKey } = options;
  const template = templates.find(({ metadata }) => metadata.name === name);
  if (template === undefined) throw new Error(`no template ${name}`);
  const own = template.spec.datastore === 'own';
  const base = exampleOptions(template.spec);
  return renderPlan({
    ...base,
    ...(version === undefined ? {} : { version }),
    ports: { ...base.ports, 'kube-apiserver': 6443 },
    advertiseAddress: '10.96.0.7',
    apiServer: { host: '10.96.0.7', port: 443 },
    etcd: { endpoint: own ? 'https://10.96.0.8:2379' : 'https://skerry-etcd.skerry-system.svc:2379' },
    replicas,
    network: {
      tenantUid: 'uid-of-the-virtual-cluster',
      serviceCIDR: base.serviceCIDR,
      ...(own ? {} : { datastore: 'https://skerry-etcd.skerry-system.svc:2379' }),
    },
    pki: {
      ...base.pki,
      ...(tokenKey === undefined ? {} : { serviceAccountKey: { privatePem: tokenKey, publicPem: tokenKey } }),
    },
    labels: { 'skerry.dev/virtualcluster': 'blue', 'skerry.dev/namespace': 'teams' },
  });
}
