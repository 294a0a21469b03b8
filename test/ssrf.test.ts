import { createSign, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ControlPlaneTemplate } from '../api/control-plane-template.ts';
import { Connection, connectionFromSecret, KubeClient, type KubeObject, resources } from '../kube/index.ts';
import { createTestCertificates } from '../kube/testing/index.ts';
import { egressFilterProblem } from '../vc-manager/os/egress-filter.ts';
import { listenInReach } from './harness/attacker-server.ts';
import { at } from './harness/checker/view.ts';
import { patientRequests, poll } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

/** Where an operator has confined control planes, only servers that it lists are reached; elsewhere all of the machine. */
const isConfined = egressFilterProblem() === undefined;
const refused = 'connect: connection refused';
const templateName = 'ssrf-oidc';

/** A server of the test that answers by path; `asked` has the paths. */
async function serve(answers: (path: string, body: string) => unknown, inReach: boolean) {
  const { ca, server: identity } = await createTestCertificates();
  const asked: string[] = [];
  const server = createServer(identity, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      asked.push(request.url ?? '');
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(answers(request.url ?? '', Buffer.concat(chunks).toString())));
    });
  });
  if (inReach) await listenInReach(server, '127.0.0.1');
  else await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `https://127.0.0.1:${port}`, ca, asked, server };
}

describe('what makes an API server dial is no stepping stone', () => {
  let world: World;
  let shared: Tenant | undefined;
  const servers: { server: ReturnType<typeof createServer> }[] = [];

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(async () => {
    // Others have this tenant, too. Their objects are converted while they go.
    const crds = ['listed', 'unlisted', 'super'].map((target) => `crd/${target}stones.example.com`);
    await shared?.kubectl('delete', ...crds, '--ignore-not-found', '--wait=false');
    for (const { server } of servers) {
      server.closeAllConnections();
      server.close();
    }
    await world?.superCluster.client
      .delete(resources.controlPlaneTemplates, { name: templateName })
      .catch(() => undefined);
    await world?.close();
  });

  it('conversion webhooks reach what the operator lists, and no other server of the machine', async () => {
    const tenant = await world.sharedTenant('stones');
    shared = tenant;
    const convert = (_: string, body: string): unknown => {
      const { request } = JSON.parse(body) as {
        request: { uid: string; desiredAPIVersion: string; objects: KubeObject[] };
      };
      const convertedObjects = request.objects.map((each) => ({
        ...each,
        apiVersion: request.desiredAPIVersion,
        spec: { by: 'webhook' },
      }));
      return {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'ConversionReview',
        response: { uid: request.uid, result: { status: 'Success' }, convertedObjects },
      };
    };
    const listed = await serve(convert, true);
    const unlisted = await serve(convert, false);
    servers.push(listed, unlisted);
    const superCluster = connectionFromSecret(world.superCluster.kubeconfig);
    const targets = {
      listed: listed,
      unlisted: unlisted,
      super: { url: `${superCluster.server}/api/v1/namespaces`, ca: superCluster.ca ?? '' },
    };
    for (const [target, { url, ca }] of Object.entries(targets)) await tenant.apply(stone(target, url, ca));
    const readAs = async (target: string): Promise<string> => {
      const plural = `${target}stones`;
      await tenant.untilServed('example.com/v1', plural);
      await tenant.untilServed('example.com/v2', plural);
      await tenant.apply({
        apiVersion: 'example.com/v1',
        kind: kindOf(target),
        metadata: { namespace: 'stones', name: 'first' },
        spec: { by: 'hand' },
      });
      const { stdout, stderr } = await tenant.tryKubectl([
        ...['-n', 'stones', 'get', `${plural}.v2.example.com`, 'first', '-o', 'jsonpath={.spec.by}'],
      ]);
      return stdout || stderr;
    };
    expect(await readAs('listed')).toBe('webhook');
    expect(await readAs('unlisted')).toContain(isConfined ? refused : 'webhook');
    expect(unlisted.asked.length > 0).toBe(!isConfined);
    // Its answer is none to a conversion, whether it is reached or not, and is not shown.
    const answer = await readAs('super');
    expect(answer).toContain(isConfined ? refused : 'Unauthorized');
    expect(answer).not.toContain('NamespaceList');
  });

  it('OIDC issuers are reached only where the template names them and the operator lists them', async () => {
    const listed = await issuer(true);
    const unlisted = await issuer(false);
    const unnamed = await issuer(true);
    servers.push(listed, unlisted, unnamed);
    const { client } = world.superCluster;
    const standard = await client.get<ControlPlaneTemplate>(resources.controlPlaneTemplates, {
      name: 'v1-36',
    });
    const components = standard.spec.components.map((component) =>
      component.name === 'kube-apiserver'
        ? {
            ...component,
            files: {
              ...component.files,
              'authentication.yaml': `${component.files?.['authentication.yaml']}jwt: ${JSON.stringify(
                [listed, unlisted].map(({ url, ca }) => ({
                  issuer: { url, audiences: ['skerry'], certificateAuthority: ca },
                  claimMappings: { username: { claim: 'sub', prefix: 'oidc:' } },
                })),
              )}\n`,
            },
          }
        : component,
    );
    await world.superCluster.apply({
      apiVersion: 'skerry.dev/v1alpha1',
      kind: 'ControlPlaneTemplate',
      metadata: { name: templateName },
      spec: { ...standard.spec, components },
    });
    const tenant = await world.createTenant('issuers', '--template', templateName);
    const { server, ca = '' } = connectionFromSecret(tenant.kubeconfig);
    const whoIs = async (token: string): Promise<string> => {
      const connection = new Connection({ server, ca, token, ...patientRequests });
      try {
        const { status } = (await new KubeClient(connection).raw(
          'POST',
          '/apis/authentication.k8s.io/v1/selfsubjectreviews',
          { body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' } },
        )) as { status: object };
        return String(at(status, 'userInfo', 'username'));
      } catch (error) {
        return String((error as { code?: unknown }).code);
      } finally {
        await connection.close();
      }
    };
    // An issuer is looked up in the background.
    const known = await poll('the issuer to be known', async () =>
      [await whoIs(listed.token('eve'))].find((name) => name !== '401'),
    );
    expect(known).toBe('oidc:eve');
    if (isConfined) expect(await whoIs(unlisted.token('eve'))).toBe('401');
    expect(unlisted.asked.length > 0).toBe(!isConfined);
    // What a token says of its issuer leads nowhere.
    expect(await whoIs(unnamed.token('eve'))).toBe('401');
    expect(unnamed.asked).toEqual([]);
  });
});

/** With two versions, of which the second is made from the first by the webhook at `url`. */
function stone(target: string, url: string, ca: string): KubeObject {
  const schema = {
    openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${target}stones.example.com` },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural: `${target}stones`, singular: `${target}stone`, kind: kindOf(target) },
      versions: [
        { name: 'v1', served: true, storage: true, schema },
        { name: 'v2', served: true, storage: false, schema },
      ],
      conversion: {
        strategy: 'Webhook',
        webhook: {
          conversionReviewVersions: ['v1'],
          clientConfig: { url, caBundle: Buffer.from(ca).toString('base64') },
        },
      },
    },
  };
}

function kindOf(target: string): string {
  return `${target.charAt(0).toUpperCase()}${target.slice(1)}Stone`;
}

/** An issuer of tokens with a key of its own. */
async function issuer(inReach: boolean) {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' };
  const made = await serve(
    (path) =>
      path === '/keys'
        ? { keys: [key] }
        : {
            issuer: made.url,
            jwks_uri: `${made.url}/keys`,
            response_types_supported: ['id_token'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['RS256'],
          },
    inReach,
  );
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (sub: string): string => {
    const now = Math.floor(Date.now() / 1000);
    const text = `${part({ alg: 'RS256', kid: 'one' })}.${part({ iss: made.url, aud: 'skerry', sub, iat: now, exp: now + 3600 })}`;
    return `${text}.${createSign('RSA-SHA256').update(text).sign(privateKey, 'base64url')}`;
  };
  return { ...made, token };
}
