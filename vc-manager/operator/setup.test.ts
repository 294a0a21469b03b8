import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { ApiError, Connection, KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { FakeApiServer, startFakeCluster } from '../../kube/testing/index.ts';
import { loadTemplates } from '../control-plane/template.ts';
import { ensureDeletionProtection, ensureTemplates, withKubeletProxySecret } from './setup.ts';
import { testManagerPki } from './testing/world.ts';

describe('ensureTemplates', () => {
  let server: FakeApiServer;
  let client: KubeClient;
  let packaged: ControlPlaneTemplate[];
  const { signal } = new AbortController();
  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new KubeClient(new Connection(server.connectionOptions));
    packaged = await loadTemplates();
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  const stored = (name: string): ControlPlaneTemplate =>
    server.get(resources.controlPlaneTemplates, { name }) as unknown as ControlPlaneTemplate;
  /** As a later release would bring it. */
  const newer = (): ControlPlaneTemplate[] =>
    packaged.map(({ spec, ...rest }) => ({
      ...rest,
      spec: { ...spec, components: spec.components.map((each) => ({ ...each, args: { added: 'yes' } })) },
    }));

  it('creates those that are missing', async () => {
    await ensureTemplates(client, packaged, signal);
    expect(stored('v1-36').spec).toEqual(packaged.find(({ metadata }) => metadata.name === 'v1-36')?.spec);
  });

  it('writes nothing the second time', async () => {
    await ensureTemplates(client, packaged, signal);
    const { resourceVersion } = server;
    await ensureTemplates(client, packaged, signal);
    expect(server.resourceVersion).toBe(resourceVersion);
  });

  it('brings those up to date that nobody has edited, and drops what the new ones do not have', async () => {
    await ensureTemplates(client, packaged, signal);
    await ensureTemplates(client, newer(), signal);
    expect(stored('v1-36').spec.components[0]?.args).toEqual({ added: 'yes' });
  });

  it("keeps an operator's edits", async () => {
    await ensureTemplates(client, packaged, signal);
    const edited = stored('v1-36');
    const spec = { ...edited.spec, components: edited.spec.components.slice(0, 1) };
    server.put(resources.controlPlaneTemplates, { ...edited, spec });
    await ensureTemplates(client, newer(), signal);
    expect(stored('v1-36').spec).toEqual(spec);
    expect(stored('v1-35').spec.components[0]?.args).toEqual({ added: 'yes' });
  });

  it('does not touch a template of that name that it has not made', async () => {
    const own = { ...(packaged[0] as ControlPlaneTemplate), metadata: { name: 'v1-36' } };
    server.put(resources.controlPlaneTemplates, own);
    const { resourceVersion } = stored('v1-36').metadata;
    await ensureTemplates(client, packaged, signal);
    expect(stored('v1-36').metadata['resourceVersion']).toBe(resourceVersion);
  });
});

describe('ensureDeletionProtection', () => {
  const { signal } = new AbortController();
  const noWarning = {
    warn: (text: unknown) => {
      throw new Error(`warned: ${String(text)}`);
    },
  };

  it('writes a policy and its binding once, and brings an older policy up to date', async () => {
    await using cluster = await startFakeCluster();
    const { client, server } = cluster;
    await ensureDeletionProtection(client, noWarning, signal);
    const { resourceVersion } = server;
    await ensureDeletionProtection(client, noWarning, signal);
    expect(server.resourceVersion).toBe(resourceVersion);
    const [policy] = server.list(resources.validatingAdmissionPolicies);
    const [binding] = server.list(resources.validatingAdmissionPolicyBindings);
    expect(binding?.['spec']).toEqual({ policyName: policy?.metadata.name, validationActions: ['Deny'] });
    server.put(resources.validatingAdmissionPolicies, { ...policy, spec: { validations: [] } } as KubeObject);
    await ensureDeletionProtection(client, noWarning, signal);
    expect(server.list(resources.validatingAdmissionPolicies)[0]?.['spec']).toEqual(policy?.['spec']);
  });

  it('says that kubectl is not held to it where the super cluster has no such policies', async () => {
    const missing = async (): Promise<never> => {
      throw new ApiError(404, undefined, 'page not found');
    };
    const client = { get: missing, create: missing } as unknown as KubeClient;
    const warnings: string[] = [];
    await ensureDeletionProtection(
      client,
      { warn: (text: unknown) => void warnings.push(String(text)) },
      signal,
    );
    expect(warnings.join()).toContain('not for kubectl');
  });
});

describe('the certificate of the kubelet proxy', () => {
  it('is handed on to the syncer at first, and again when it was renewed', async () => {
    await using cluster = await startFakeCluster();
    const { signal } = new AbortController();
    let pki = await testManagerPki();
    const ask = withKubeletProxySecret(async () => pki, cluster.client, 'skerry-system', signal);
    const handedOn = (): string | undefined => {
      const ref = { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' };
      const data = cluster.server.get(resources.secrets, ref)?.['data'] as Record<string, string> | undefined;
      return data && Buffer.from(data['tls.crt'] ?? '', 'base64').toString();
    };
    expect(await ask()).toBe(pki);
    expect(handedOn()).toBe(pki.kubeletProxy.certPem);
    const asked = cluster.server.requests.length;
    await ask();
    expect(cluster.server.requests.length).toBe(asked);

    pki = await testManagerPki();
    await ask();
    expect(handedOn()).toBe(pki.kubeletProxy.certPem);
  });
});
