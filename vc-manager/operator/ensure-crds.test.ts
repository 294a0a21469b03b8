import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { crdManifests } from '../../api/crds.ts';
import { type CallOptions, Connection, KubeClient, type KubeObject, resources } from '../../kube/index.ts';
import { FakeApiServer, FakeClock } from '../../kube/testing/index.ts';
import { ensureCrds } from './ensure-crds.ts';

const crds = resources.customResourceDefinitions;
const ref = { name: 'virtualclusters.skerry.dev' };

/** The fake serves any resource but does not say which. */
class Client extends KubeClient {
  discovered = true;
  override async raw(
    method: string,
    path: string,
    options?: CallOptions & { body?: unknown },
  ): Promise<unknown> {
    if (!this.discovered || path !== '/apis/skerry.dev/v1alpha1') return super.raw(method, path, options);
    return {
      resources: crdManifests().map(({ spec }) => ({
        name: (spec as { names: { plural: string } }).names.plural,
      })),
    };
  }
}

describe('ensureCrds', () => {
  let server: FakeApiServer;
  let client: Client;
  const clock = (): FakeClock => new FakeClock({ autoAdvance: true });
  beforeEach(async () => {
    server = await FakeApiServer.start();
    client = new Client(new Connection(server.connectionOptions));
  });
  afterEach(async () => {
    await client.connection.close();
    await server.stop();
  });

  /** What apiextensions does with a new one. */
  async function establish(conditions: object[] = [{ type: 'Established', status: 'True' }]): Promise<void> {
    await server.until(() => server.list(crds).length === crdManifests().length);
    for (const crd of server.list(crds)) server.put(crds, { ...crd, status: { conditions } });
  }

  it('creates them and waits until they are established', async () => {
    let done = false;
    const ensuring = ensureCrds(client, { clock: clock() }).then(() => {
      done = true;
    });
    await server.until(() => server.list(crds).length === crdManifests().length);
    expect(done).toBe(false);
    await establish();
    await ensuring;
  });

  it('waits until discovery knows them', async () => {
    client.discovered = false;
    await Promise.all([
      expect(ensureCrds(client, { clock: clock() })).rejects.toMatchObject({ code: 'CrdNotEstablished' }),
      establish(),
    ]);
  });

  it('reads each once and writes nothing when they are as they should be', async () => {
    await Promise.all([ensureCrds(client, { clock: clock() }), establish()]);
    const { length } = server.requests;
    await ensureCrds(client, { clock: clock() });
    expect(server.requests.slice(length).map(({ method, name }) => [method, name])).toEqual(
      crdManifests().map(({ metadata }) => ['GET', metadata.name]),
    );
  });

  it('brings an older one up to date and keeps what others put there', async () => {
    await Promise.all([ensureCrds(client, { clock: clock() }), establish()]);
    const current = server.get(crds, ref) as KubeObject;
    const labels = { ...current.metadata.labels, team: 'platform' };
    server.put(crds, {
      ...current,
      metadata: { ...current.metadata, labels },
      spec: { group: 'skerry.dev', old: true },
    });
    await ensureCrds(client, { clock: clock() });
    expect(server.get(crds, ref)).toMatchObject({
      metadata: { labels: { team: 'platform' } },
      spec: current['spec'],
    });
    expect(server.get(crds, ref)?.['spec']).not.toHaveProperty('old');
  });

  it('says who is in the way when the names are taken', async () => {
    const refused = [{ type: 'NamesAccepted', status: 'False', message: '"vc" is already in use' }];
    await Promise.all([
      expect(ensureCrds(client, { clock: clock() })).rejects.toThrow(/"vc" is already in use/),
      establish(refused),
    ]);
  });
});
