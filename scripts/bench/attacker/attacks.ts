import { once } from 'node:events';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { Readable } from 'node:stream';
import {
  createIfAbsent,
  type KubeClient,
  type KubeObject,
  type Resource,
  resource,
  resources,
  untilAborted,
} from '../../../kube/index.ts';
import { defaultAdvertiseAddress } from '../../../vc-manager/cli/arguments.ts';
import { createAuthority } from '../../../vc-manager/pki/index.ts';

/** Does its worst at one tenant until aborted. What is refused does not end it. */
export type Flood = (attacker: KubeClient, namespace: string, signal: AbortSignal) => Promise<void>;

const megabyte = 1024 * 1024;
const synced = { 'skerry.dev/sync': 'true' };

/** As many at once, again and again, each with a number of its own. */
async function inLoops(
  count: number,
  signal: AbortSignal,
  work: (n: number) => Promise<unknown>,
): Promise<void> {
  let n = 0;
  const loop = async (): Promise<void> => {
    while (!signal.aborted) await work(n++).catch(() => undefined);
  };
  await Promise.all(Array.from({ length: count }, loop));
}

/** Creates objects, some at a time. One that exists already is left as it is. */
async function createObjects(
  client: KubeClient,
  resource: Resource,
  count: number,
  atOnce: number,
  signal: AbortSignal,
  object: (n: number) => KubeObject,
): Promise<void> {
  let left = count;
  const create = async (): Promise<void> => {
    while (left-- > 0) await createIfAbsent(client, resource, object(left), { signal });
  };
  await Promise.all(Array.from({ length: atOnce }, create));
}

function pod(namespace: string, name: string): KubeObject {
  const containers = [{ name: 'main', image: 'registry.k8s.io/pause:3.10' }];
  return { metadata: { namespace, name }, spec: { automountServiceAccountToken: false, containers } };
}

/** Objects without end: as a list, or as the events of a watch. Each has a name of its own. */
function* endlessAnswer(isWatch: boolean, namespace: string): Generator<string> {
  const annotations = { junk: 'x'.repeat(10_000) };
  if (!isWatch) yield '{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[';
  for (let n = 1; ; n++) {
    const metadata = {
      namespace,
      name: `endless-${n}`,
      uid: `uid-${n}`,
      resourceVersion: `${n}`,
      annotations,
    };
    yield isWatch
      ? `${JSON.stringify({ type: 'ADDED', object: { metadata } })}\n`
      : `${JSON.stringify({ metadata })},`;
  }
}

/**
 * Has a server of the attacker answer for the tenant's core API, without end, while pods come up: their bindings, statuses
 * and events are answered so. The API is its own again afterwards.
 */
async function answerWithoutEnd(client: KubeClient, namespace: string, signal: AbortSignal): Promise<void> {
  const { certPem: cert, keyPem: key } = await createAuthority({ commonName: 'endless' });
  const server = createTlsServer({ cert, key }, (request, response) => {
    response.setHeader('content-type', 'application/json');
    // Whether the API is there is asked for by its path alone.
    if (!/^\/api\/v1\/./.test(request.url ?? '')) response.end('{"kind":"APIResourceList","resources":[]}');
    else Readable.from(endlessAnswer(request.url?.includes('watch=') === true, namespace)).pipe(response);
  }).listen(0, '0.0.0.0');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const name = 'endless';
  await client.create(resources.services, {
    metadata: { namespace, name },
    spec: { ports: [{ port: 443 }] },
  } as KubeObject);
  await client.create(resources.endpointSlices, {
    metadata: { namespace, name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [defaultAdvertiseAddress()], conditions: { ready: true } }],
    ports: [{ port, protocol: 'TCP' }],
  } as KubeObject);
  const standIn = (service: object | null): Promise<unknown> => {
    const spec = { service, insecureSkipTLSVerify: service === null ? null : true };
    return client.patch(apiServices, { name: 'v1.' }, { spec }, { type: 'merge' });
  };
  try {
    await standIn({ namespace, name, port: 443 });
    await untilAborted(signal);
  } finally {
    await standIn(null);
    server.closeAllConnections();
    server.close();
  }
}

const apiServices = resource('apiregistration.k8s.io', 'v1', 'apiservices', 'APIService', false);

export const attacks: Readonly<Record<string, Flood>> = {
  'lists of 5,000 objects': async (client, namespace, signal) => {
    await inLoops(8, signal, () =>
      client.raw('GET', `/api/v1/namespaces/${namespace}/configmaps`, { signal }),
    );
  },
  'writes of 1 MB': async (client, namespace, signal) => {
    const data = { value: 'x'.repeat(megabyte - 2_000) };
    const named = (n: number): KubeObject => ({
      metadata: { namespace, name: `large-${n % 4}`, labels: synced },
      data: { ...data, n: String(n) },
    });
    await inLoops(4, signal, async (n) => {
      const object = named(n);
      const ref = { namespace, name: object.metadata.name ?? '' };
      await client
        .create(resources.configMaps, object, { signal })
        .catch(() => client.patch(resources.configMaps, ref, object, { type: 'merge', signal }));
    });
  },
  '10,000 events': async (client, namespace, signal) => {
    await inLoops(8, signal, (n) =>
      n >= 10_000
        ? untilAborted(signal)
        : client.create(
            resources.events,
            {
              metadata: { namespace, name: `flood-${n}` },
              involvedObject: { kind: 'Namespace', name: namespace, namespace },
              reason: 'Flood',
              type: 'Normal',
            },
            { signal },
          ),
    );
  },
  '1,000 namespaces': async (client, _namespace, signal) => {
    await inLoops(8, signal, (n) =>
      client.create(resources.namespaces, { metadata: { name: `flood-${n % 1_000}` } }, { signal }),
    );
  },
  'watches from the past': async (client, namespace, signal) => {
    const data = { value: 'x'.repeat(megabyte / 100) };
    const versions: string[] = [];
    const write = inLoops(2, signal, async (n) => {
      const name = `history-${n % 2}`;
      const object: KubeObject = { metadata: { namespace, name }, data: { ...data, n: String(n) } };
      const { metadata } = await client
        .patch(resources.configMaps, { namespace, name }, object, { type: 'merge', signal })
        .catch(() => client.create(resources.configMaps, object, { signal }));
      versions.push(metadata.resourceVersion ?? '');
      if (versions.length > 3_000) versions.shift();
    });
    const watch = inLoops(20, signal, (n) => {
      const kind = n % 2 === 0 ? 'api/v1/events' : 'api/v1/limitranges';
      return client.raw('GET', `/${kind}?watch=true&timeoutSeconds=1&resourceVersion=${versions[0] ?? ''}`, {
        signal,
      });
    });
    await Promise.all([write, watch]);
  },
  'webhooks that hang': async (client, namespace, signal) => {
    const trap = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(trap, 'listening');
    const { port } = trap.address() as AddressInfo;
    const webhooks = resource(
      'admissionregistration.k8s.io',
      'v1',
      'validatingwebhookconfigurations',
      'ValidatingWebhookConfiguration',
      false,
    );
    const rule = {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['UPDATE'],
      resources: ['pods', 'pods/*'],
    };
    const webhook = {
      name: 'trap.example.com',
      clientConfig: { url: `https://127.0.0.1:${port}/` },
      rules: [rule],
      timeoutSeconds: 30,
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    };
    try {
      await client.create(webhooks, { metadata: { name: 'trap' }, webhooks: [webhook] }, { signal });
      await inLoops(4, signal, (n) =>
        n >= 200
          ? untilAborted(signal)
          : client.create(resources.pods, pod(namespace, `trapped-${n}`), { signal }),
      );
    } finally {
      await client.delete(webhooks, { name: 'trap' }).catch(() => undefined);
      trap.close();
    }
  },
  // The last one: the tenant is held for a while afterwards.
  'bodies without end': answerWithoutEnd,
};

/** What has to be there before a flood is measured. */
export const prepared: Readonly<Record<string, Flood>> = {
  'lists of 5,000 objects': (client, namespace, signal) =>
    createObjects(client, resources.configMaps, 5_000, 20, signal, (n) => ({
      metadata: { namespace, name: `filler-${n}` },
    })),
  // One after the other: what many at once do to others is measured by `fairness`.
  'bodies without end': (client, namespace, signal) =>
    createObjects(client, resources.pods, 50, 1, signal, (n) => pod(namespace, `endless-${n}`)),
};
