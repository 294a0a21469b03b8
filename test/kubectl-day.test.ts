import { writeFile } from 'node:fs/promises';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { stringify } from 'yaml';
import { type KubeClient, type KubeObject, resource, resources } from '../kube/index.ts';
import { signedUser } from './harness/certificates.ts';
import { at } from './harness/checker/view.ts';
import { configMap, deployment, namespace, pod, service } from './harness/manifests.ts';
import { patienceMs, patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

const clusterRoleBindings = resource(
  'rbac.authorization.k8s.io',
  'v1',
  'clusterrolebindings',
  'ClusterRoleBinding',
  false,
);

describe('kubectl with the kubeconfig of a tenant', () => {
  let world: World;
  let tenant: Tenant;
  let jane: KubeClient | undefined;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.sharedTenant('day');
    await tenant.kubectl('config', 'set-context', '--current', '--namespace=day');
    await tenant.apply(deployment('day', 'web', 2), service('day', 'web'));
    await tenant.kubectl('rollout', 'status', 'deployment/web', patiently);
  });

  afterAll(async () => {
    await jane?.connection.close();
    for (const made of ['csr/jane', 'clusterrolebinding/jane'])
      await tenant?.tryKubectl(['delete', made, '--ignore-not-found']);
    await world?.close();
  });

  const k = (...args: string[]): Promise<string> => tenant.kubectl(...args);
  const jsonPath = (what: string[], path: string): Promise<string> =>
    k('get', ...what, '-o', `jsonpath={${path}}`);

  it('get: tables, names, JSON, selectors', async () => {
    expect(await k('get', 'pods')).toMatch(/^NAME +READY +STATUS +RESTARTS +AGE\nweb-\S+ +1\/1 +Running +0/);
    expect((await k('get', 'pods', '-l', 'app=web', '-o', 'name')).split('\n')).toHaveLength(2);
    expect(await k('get', 'nodes')).toMatch(/sim-0 +Ready/);
    expect(JSON.parse(await k('get', 'service', 'web', '-o', 'json'))).toMatchObject({ kind: 'Service' });
    expect(await k('get', 'all', '-A')).toContain('service/kubernetes');
    expect(await k('get', 'pods', '-o', 'wide')).toMatch(/ sim-\d /);
  });

  it('describe shows the events of the pod, and no word of the super cluster', async () => {
    const name = (await k('get', 'pods', '-o', 'name')).split('\n')[0] ?? '';
    await tenant.kubectl('wait', name, '--for=condition=Ready', patiently);
    // Events come by a way of their own.
    await tenant.until(
      { resource: resources.events, namespace: 'day', what: 'the event Scheduled' },
      (events) =>
        events.some(
          (event) => event['reason'] === 'Scheduled' && `pod/${at(event, 'involvedObject', 'name')}` === name,
        ),
    );
    const text = await k('describe', name);
    expect(text).toMatch(/Node: +sim-\d/);
    expect(text).toMatch(/Scheduled/);
    expect(text).toContain(`Successfully assigned day/`);
    expect(text).not.toContain(`default-${tenant.name}-day`);
    expect(await k('describe', 'node', 'sim-0')).toContain('simulated');
    await tenant.untilEndpoints('day', 'web', 2);
    expect(await k('describe', 'service', 'web')).toMatch(/Endpoints: +\d+\.\d+\.\d+\.\d+:8080,/);
  });

  it('apply, on the client and on the server, diff, and what happens when two managers want one field', async () => {
    const file = world.file('settings.yaml');
    await writeFile(file, stringify(configMap('day', 'settings', { colour: 'blue' })));
    expect(await k('apply', '-f', file)).toBe('configmap/settings created');
    expect(await k('apply', '-f', file)).toBe('configmap/settings unchanged');
    await writeFile(file, stringify(configMap('day', 'settings', { colour: 'red' })));
    const diff = await tenant.tryKubectl(['diff', '-f', file]);
    expect(diff.exitCode).toBe(1);
    expect(diff.stdout).toContain('+  colour: red');
    expect(await k('apply', '-f', file)).toBe('configmap/settings configured');
    const applied = configMap('day', 'shared', { colour: 'blue' });
    await writeFile(file, stringify(applied));
    expect(await k('apply', '--server-side', '--field-manager=one', '-f', file)).toContain(
      'serverside-applied',
    );
    await writeFile(file, stringify(configMap('day', 'shared', { colour: 'green' })));
    const refused = await tenant.tryKubectl(['apply', '--server-side', '--field-manager=two', '-f', file]);
    expect(refused.stderr).toContain('conflict with "one"');
    await k('apply', '--server-side', '--field-manager=two', '--force-conflicts', '-f', file);
    expect(await jsonPath(['configmap', 'shared'], '.data.colour')).toBe('green');
  });

  it('edit, with an editor that is a script', async () => {
    const editor = world.file('editor.sh');
    await writeFile(editor, '#!/bin/sh\nsed -i.bak s/green/yellow/ "$1"\n', { mode: 0o700 });
    const edited = await tenant.tryKubectl(['edit', 'configmap', 'shared'], {
      env: { EDITOR: editor, KUBE_EDITOR: editor },
    });
    expect(edited.stdout).toBe('configmap/shared edited');
    expect(await jsonPath(['configmap', 'shared'], '.data.colour')).toBe('yellow');
  });

  it('patch, label, annotate, set', async () => {
    await k(
      'patch',
      'deployment',
      'web',
      '--type=strategic',
      '-p',
      '{"spec":{"template":{"metadata":{"labels":{"tier":"front"}}}}}',
    );
    await k(
      'patch',
      'deployment',
      'web',
      '--type=json',
      '-p',
      '[{"op":"replace","path":"/spec/replicas","value":3}]',
    );
    await k('label', 'deployment', 'web', 'owner=me');
    await k('annotate', 'deployment', 'web', 'note=hello');
    await k('set', 'env', 'deployment/web', 'GREETING=hello');
    expect(await k('rollout', 'status', 'deployment/web', patiently)).toContain('successfully rolled out');
    expect(await k('get', 'pods', '-l', 'tier=front', '-o', 'name')).toMatch(/^(pod\/web-\S+\n?){3,}$/);
    await world.expectAgreement();
  });

  it('scale, rollout history, restart, undo, wait', async () => {
    await k('scale', 'deployment/web', '--replicas=1');
    await k('wait', 'deployment/web', '--for=jsonpath={.status.readyReplicas}=1', patiently);
    await k('rollout', 'restart', 'deployment/web');
    await k('rollout', 'status', 'deployment/web', patiently);
    expect(await k('rollout', 'history', 'deployment/web')).toMatch(/REVISION/);
    expect(await k('rollout', 'undo', 'deployment/web')).toBe('deployment.apps/web rolled back');
    await k('rollout', 'status', 'deployment/web', patiently);
    const late = await tenant.tryKubectl(['wait', 'deployment/web', '--for=condition=Never', '--timeout=1s']);
    expect(late.exitCode).toBe(1);
    expect(late.stderr).toContain('timed out');
  });

  it('watch sees what another kubectl does', async () => {
    const begin = async (): Promise<void> => {
      await k('create', 'configmap', 'watched', '--from-literal=a=b');
      await k('label', 'configmap', 'watched', 'more=yes');
      await k('delete', 'configmap', 'watched');
    };
    const watching = execa(
      inject('stack').kubectl,
      [
        ...['--kubeconfig', tenant.kubeconfigFile, 'get', 'configmaps'],
        ...['--watch', '--output-watch-events', '--no-headers'],
      ],
      { reject: false, buffer: false, timeout: patienceMs },
    );
    const seen: string[] = [];
    let changes: Promise<void> | undefined;
    for await (const line of watching) {
      const [event, name] = line.split(/ +/);
      // The list comes first; changes begin when kubectl has begun to watch.
      if (name === 'shared') changes ??= begin();
      if (name === 'watched') seen.push(event ?? '');
      if (event === 'DELETED') watching.kill();
    }
    await changes;
    expect(seen).toEqual(['ADDED', 'MODIFIED', 'DELETED']);
  });

  it('auth can-i and whoami: an administrator of everything, by a group that is not system:masters', async () => {
    expect(await k('auth', 'can-i', '*', '*', '--all-namespaces')).toBe('yes');
    const who = await k('auth', 'whoami', '-o', 'jsonpath={.status.userInfo.groups}');
    expect(who).toContain('skerry:cluster-admins');
    expect(who).not.toContain('system:masters');
    const nobody = await tenant.tryKubectl(['auth', 'can-i', 'create', 'pods', '--as', 'nobody']);
    expect(nobody).toMatchObject({ stdout: 'no', exitCode: 1 });
    await k('create', 'role', 'reader', '--verb=get,list', '--resource=pods');
    await k('create', 'rolebinding', 'reader', '--role=reader', '--user=nobody');
    // Authorization hears of the binding by a watch.
    const mayList = async () =>
      (await tenant.tryKubectl(['auth', 'can-i', 'list', 'pods', '--as', 'nobody'])).stdout;
    await expect.poll(mayList).toBe('yes');
  });

  it('api-resources, api-versions, explain, version, cluster-info', async () => {
    // It names all that it knows, but fails while metrics.k8s.io is not known, as right after a start of the syncer.
    const { stdout } = await tenant.tryKubectl(['api-resources', '--namespaced=true', '-o', 'name']);
    expect(stdout).toContain('deployments.apps');
    expect(await k('api-versions')).not.toContain('skerry.dev');
    expect(await k('explain', 'pod.spec.containers')).toMatch(/KIND: +Pod/);
    expect(JSON.parse(await k('version', '-o', 'json'))).toMatchObject({ serverVersion: { minor: '36' } });
    expect(await k('cluster-info')).toContain(tenant.virtualCluster.status?.gateway?.server);
  });

  it('certificate approve: a user by name, with the rights that its name is given', async () => {
    const user = await signedUser(tenant, 'jane');
    jane = user;
    const pods = { namespace: 'day' };
    await expect(user.list(resources.pods, pods)).rejects.toThrow(/User "jane" cannot list/);
    await k('create', 'rolebinding', 'jane', '-n', 'day', '--clusterrole=view', '--user=jane');
    await expect
      .poll(() => user.list(resources.pods, pods).catch(() => undefined))
      .toMatchObject({ items: expect.any(Array) });
  });

  it('create token: the token is that ServiceAccount', async () => {
    await k('create', 'serviceaccount', 'robot');
    await k('create', 'rolebinding', 'robot', '--clusterrole=view', '--serviceaccount=day:robot');
    const token = await k('create', 'token', 'robot', '--duration=10m');
    const { server } = JSON.parse(
      await k('config', 'view', '--minify', '--raw', '-o', 'jsonpath={.clusters[0].cluster}'),
    ) as {
      server: string;
    };
    const authority = world.file('ca.crt');
    const encoded = await k(
      'config',
      'view',
      '--minify',
      '--raw',
      '-o',
      'jsonpath={.clusters[0].cluster.certificate-authority-data}',
    );
    await writeFile(authority, Buffer.from(encoded, 'base64'));
    const asRobot = [
      '--kubeconfig=/dev/null',
      `--server=${server}`,
      `--certificate-authority=${authority}`,
      `--token=${token}`,
    ];
    const who = await tenant.tryKubectl([
      ...asRobot,
      'auth',
      'whoami',
      '-o',
      'jsonpath={.status.userInfo.username}',
    ]);
    expect(who.stdout).toBe('system:serviceaccount:day:robot');
    // Authorization hears of the binding by a watch.
    const mayList = async () =>
      (await tenant.tryKubectl([...asRobot, '-n', 'day', 'auth', 'can-i', 'list', 'pods'])).stdout;
    await expect.poll(mayList).toBe('yes');
    expect((await tenant.tryKubectl([...asRobot, '-n', 'day', 'get', 'pods'])).exitCode).toBe(0);
    expect((await tenant.tryKubectl([...asRobot, '-n', 'day', 'get', 'secrets'])).stderr).toContain(
      'forbidden',
    );
  });

  it('cordon of a node and the like do not reach the real node, and are put back', async () => {
    await k('cordon', 'sim-1');
    await world.expectAgreement();
    expect(
      await world.superCluster.kubectl('get', 'node', 'sim-1', '-o', 'jsonpath={.spec.unschedulable}'),
    ).toBe('');
    await tenant.until<true, KubeObject>(
      { resource: resources.events, namespace: 'default', what: 'the reason as an event' },
      (events) => events.some(({ reason }) => reason === 'CordonFollowsCluster') || undefined,
    );
    await k('delete', 'node', 'sim-1');
    await world.expectAgreement();
  });

  it('logs, exec, attach and port-forward say in one clear sentence what they cannot do', async () => {
    await tenant.apply(pod('day', 'silent'));
    await k('wait', 'pod/silent', '--for=condition=Ready', patiently);
    for (const command of [
      ['logs', 'silent'],
      ['exec', 'silent', '--', 'true'],
      ['attach', 'silent'],
    ]) {
      const { exitCode, stderr } = await tenant.tryKubectl(command);
      expect(exitCode, command[0]).not.toBe(0);
      expect(stderr, command[0]).toMatch(/silent.*its node is simulated and runs no containers/);
      expect(
        stderr.split('\n').filter((line) => line.startsWith('Error') || line.startsWith('error')),
      ).toHaveLength(1);
    }
  });

  it('delete: by name, by label, by file, with the whole namespace', async () => {
    await k('delete', 'pod', 'silent', patiently);
    await k('delete', 'configmap', 'shared', 'settings');
    await k('delete', 'deployment,service', '-l', 'owner=me', patiently);
    expect(await k('get', 'deployments', '-o', 'name')).toBe('');
    const gone = await tenant.tryKubectl(['get', 'pod', 'silent']);
    expect(gone.stderr).toBe('Error from server (NotFound): pods "silent" not found');
    await tenant.apply(namespace('brief'), pod('brief', 'one'));
    await k('delete', 'namespace', 'brief', patiently);
    await world.expectAgreement();
  });

  it('has no rights any more when the binding of its group is deleted, until somebody binds it again', async () => {
    const ref = { name: 'skerry:cluster-admins' };
    const { roleRef, subjects } = await tenant.client.get(clusterRoleBindings, ref);
    await k('create', 'clusterrolebinding', 'jane', '--clusterrole=cluster-admin', '--user=jane');
    const get = () => tenant.tryKubectl(['get', 'pods']);
    // Authorization hears of bindings by a watch.
    await expect
      .poll(() => jane?.get(clusterRoleBindings, ref).catch(() => undefined))
      .toMatchObject({ roleRef });
    await k('delete', 'clusterrolebinding', ref.name);
    try {
      await expect.poll(async () => (await get()).stderr).toMatch(/Forbidden/);
    } finally {
      await jane?.create(clusterRoleBindings, { metadata: ref, roleRef, subjects });
    }
    await expect.poll(async () => (await get()).exitCode).toBe(0);
  });
});
