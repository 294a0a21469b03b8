import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resource, resources } from '../../kube/index.ts';
import { createAuthority, issue } from '../../vc-manager/pki/index.ts';
import { at } from '../harness/checker/view.ts';
import { configMap, namespace, pod, service } from '../harness/manifests.ts';
import { patienceMs, patiently } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import { server, untilReady } from './suite/pods.ts';

const ns = 'hooks';
const group = 'admissionregistration.k8s.io';

describe('an admission webhook that is served by a pod of the tenant', () => {
  let world: World;
  let tenant: Tenant;
  let other: Tenant;
  let caBundle: string;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, other] = await world.joinTenants(ns, 'hooked');
    const authority = await createAuthority({ commonName: 'hook' });
    const pair = await issue(authority, {
      commonName: 'hook',
      dnsNames: [`hook.${ns}.svc`],
      usage: ['server'],
    });
    caBundle = Buffer.from(authority.certPem).toString('base64');
    await tenant.apply(
      namespace(ns),
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { namespace: ns, name: 'serving' },
        type: 'kubernetes.io/tls',
        stringData: { 'tls.crt': pair.certPem, 'tls.key': pair.keyPem },
      },
      service(ns, 'hook', { ports: [{ port: 443, targetPort: 8443 }] }),
      pod(ns, 'hook', {
        containers: [
          server(
            ['webhook', '--tls-cert-file=/pki/tls.crt', '--tls-private-key-file=/pki/tls.key', '--port=8443'],
            {
              volumeMounts: [{ name: 'pki', mountPath: '/pki', readOnly: true }],
              readinessProbe: {
                httpGet: { path: '/readyz', port: 8443, scheme: 'HTTPS' },
                periodSeconds: 1,
                timeoutSeconds: 10,
              },
            },
          ),
        ],
        volumes: [{ name: 'pki', secret: { secretName: 'serving' } }],
      }),
    );
    await untilReady(tenant, ns, 'hook');
    for (const [kind, path] of [
      ['ValidatingWebhookConfiguration', '/configmaps'],
      ['MutatingWebhookConfiguration', '/mutating-configmaps'],
    ] as const) {
      await tenant.apply({
        apiVersion: `${group}/v1`,
        kind,
        metadata: { name: 'hook' },
        webhooks: [
          {
            name: `hook.${ns}.test`,
            clientConfig: { service: { namespace: ns, name: 'hook', path }, caBundle },
            rules: [
              { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
            ],
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'hooked' } },
            admissionReviewVersions: ['v1'],
            sideEffects: 'None',
            timeoutSeconds: 10,
          },
        ],
      });
    }
    for (const each of [tenant, other]) await each.apply(namespace('hooked'));
  });

  afterAll(() => world?.close());

  const refused = configMap('hooked', 'refused', { 'webhook-e2e-test': 'webhook-disallow' });

  it('refuses, in the words of the pod', async () => {
    const refusal = async (): Promise<string> =>
      (await tenant.tryKubectl(['create', '-f', '-'], { input: JSON.stringify(refused) })).stderr;
    // An API server hears of a new webhook by a watch of its own, and says to nobody that it has.
    await expect.poll(refusal, { interval: 100 }).toContain('the configmap contains unwanted key and value');
    expect(await refusal()).toContain(`admission webhook "hook.${ns}.test" denied the request`);
  });

  it('changes what is created', async () => {
    let count = 0;
    // The API server hears of each webhook separately.
    await expect
      .poll(
        async () => {
          const name = `changed-${count++}`;
          const asked = configMap('hooked', name, { 'mutation-start': 'yes' });
          return at(await tenant.client.create(resources.configMaps, asked), 'data');
        },
        { interval: 100 },
      )
      .toEqual({ 'mutation-start': 'yes', 'mutation-stage-1': 'yes' });
  });

  it("is not asked about other namespaces, nor about another tenant's, nor about the super cluster's", async () => {
    await tenant.apply({ ...refused, metadata: { namespace: ns, name: 'refused' } });
    await other.apply(refused);
    await world.superCluster.apply({ ...refused, metadata: { namespace: 'default', name: 'refused' } });
    await world.superCluster.client.delete(resources.configMaps, { namespace: 'default', name: 'refused' });
    const { items } = await world.superCluster.client.list<KubeObject>(
      resource(group, 'v1', 'validatingwebhookconfigurations', 'ValidatingWebhookConfiguration', false),
    );
    expect(items.filter(({ metadata }) => metadata.name === 'hook')).toEqual([]);
  });

  it('stands in the way when its pod is gone, and no more when it is deleted', async () => {
    await tenant.kubectl('-n', ns, 'delete', 'pod', 'hook', patiently);
    const created = await tenant.tryKubectl(['create', '-f', '-'], {
      input: JSON.stringify(configMap('hooked', 'blocked')),
    });
    expect(created.stderr).toMatch(/failed calling webhook|no endpoints available/);
    await tenant.kubectl('delete', 'validatingwebhookconfiguration,mutatingwebhookconfiguration', 'hook');
    await expect
      .poll(
        async () =>
          (
            await tenant.tryKubectl(['apply', '-f', '-'], {
              input: JSON.stringify(configMap('hooked', 'free')),
            })
          ).exitCode,
        { interval: 100 },
      )
      .toBe(0);
    await world.expectAgreement(undefined, patienceMs);
  });
});
