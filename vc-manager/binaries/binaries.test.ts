import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { freePort } from '../../kube/testing/free-port.ts';
import { BinaryUnavailableError } from './errors.ts';
import { BinariesWorld, program } from './testing/binaries-world.ts';
import { ReleaseServer, serve, sha256 } from './testing/release-server.ts';

const apiserver = { name: 'kube-apiserver', version: '1.36.3' } as const;
const content = program('Kubernetes v1.36.3', 'x'.repeat(200_000));
const { signal } = new AbortController();

describe('downloads', () => {
  it('fetches the official file, installs it executable, and takes it from the cache afterwards', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    const options = { downloadBase: () => server.address };

    const location = await place.binaries(options).ensure(apiserver, { signal });
    expect(location).toEqual({
      ...apiserver,
      path: place.cached('kube-apiserver', '1.36.3'),
      source: 'download',
    });
    expect((await execa(location.path)).stdout).toBe('Kubernetes v1.36.3');
    expect(place.progress.find(({ percent }) => percent === 100)?.message).toBe('0.2 of 0.2 MB');
    expect(place.progress.at(-1)?.stage).toBe('ready');

    expect(await place.binaries(options).ensure(apiserver, { signal })).toEqual({
      ...location,
      source: 'cache',
    });
    expect(server.count(path)).toBe(1);
    const left = await readdir(join(place.cached('kube-apiserver', '1.36.3'), '..'));
    expect(left.sort()).toEqual(['kube-apiserver', 'kube-apiserver.sha256']);
    expect(await readdir(join(place.cache, 'binaries', '.tmp'))).toEqual([]);
  });

  it('unpacks etcd from its archive after comparing the archive with the release list', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    await place.script('etcd-v3.7.3-linux-amd64/etcd', program('etcd Version: 3.7.3'));
    await place.script('etcd-v3.7.3-linux-amd64/etcdctl', program('etcdctl'));
    await execa('tar', ['-czf', 'etcd.tar.gz', 'etcd-v3.7.3-linux-amd64'], { cwd: place.directory });
    const archive = await readFile(join(place.directory, 'etcd.tar.gz'));
    const base = '/github.com/etcd-io/etcd/releases/download/v3.7.3';
    server.file(`${base}/etcd-v3.7.3-linux-amd64.tar.gz`, archive);
    const sums = `${sha256('other')}  etcd-v3.7.3-linux-arm64.tar.gz\n${sha256(archive)}  etcd-v3.7.3-linux-amd64.tar.gz\n`;
    server.file(`${base}/SHA256SUMS`, sums);

    const binaries = place.binaries({ env: place.env({ SKERRY_DOWNLOAD_BASE: `${server.address}/` }) });
    const location = await binaries.ensure({ name: 'etcd', version: '3.7.3' }, { signal });
    expect(location.source).toBe('download');
    expect((await execa(location.path)).stdout).toBe('etcd Version: 3.7.3');
    expect((await readdir(join(location.path, '..'))).sort()).toEqual(['etcd', 'etcd.sha256']);
  });

  it('compares kwok with the digest in the description of its release', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const kwok = program('kwok version v0.8.0');
    server.file('/github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok-linux-amd64', kwok);
    const release = { assets: [{ name: 'kwok-linux-amd64', digest: `sha256:${sha256(kwok)}` }] };
    server.file('/api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0', JSON.stringify(release));
    const binaries = place.binaries({ downloadBase: () => server.address });
    expect((await binaries.ensure({ name: 'kwok', version: '0.8.0' }, { signal })).source).toBe('download');
  });

  it('refuses a file with another hash than published, and keeps nothing of it', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content, sha256('something else'));
    const error = await failure(place, server);
    expect(error.message).toContain(`published is ${sha256('something else')}; it was deleted`);
    expect(server.count(path)).toBe(1);
    expect(await readdir(join(place.cached('kube-apiserver', '1.36.3'), '..'))).toEqual([]);
  });

  it('takes up a transfer that broke off, asking only for the rest', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    server.on(path, async (request, response) => {
      if (request.headers.range !== undefined) return serve(Buffer.from(content))(request, response);
      await sendAndBreak(response, place);
    });
    const location = await place
      .binaries({ downloadBase: () => server.address })
      .ensure(apiserver, { signal });
    expect(await readFile(location.path, 'utf8')).toBe(content);
    expect(server.requests.filter((request) => request.path === path)).toEqual([
      { path, range: undefined },
      { path, range: 'bytes=50000-' },
    ]);
  });

  it('continues in a later run what an earlier run could not finish', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    server.on(path, async (request, response) => {
      if (request.headers.range === undefined) await sendAndBreak(response, place);
      else response.destroy();
    });
    await failure(place, server);
    server.file(path, content);
    const location = await place
      .binaries({ downloadBase: () => server.address })
      .ensure(apiserver, { signal });
    expect(await readFile(location.path, 'utf8')).toBe(content);
    expect(server.requests.at(-1)).toEqual({ path, range: 'bytes=50000-' });
  });

  it('starts over when what was left of an earlier run does not belong to the file', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    const cached = await place.script(
      'cache/binaries/kube-apiserver/1.36.3/linux-amd64/kube-apiserver.partial',
      'old',
    );
    expect(cached).toBe(`${place.cached('kube-apiserver', '1.36.3')}.partial`);
    const location = await place
      .binaries({ downloadBase: () => server.address })
      .ensure(apiserver, { signal });
    expect(await readFile(location.path, 'utf8')).toBe(content);
    expect(server.requests.filter((request) => request.path === path)).toEqual([
      { path, range: 'bytes=3-' },
      { path, range: undefined },
    ]);
  });

  it('says which address has no such file', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const error = await failure(place, server);
    expect(error.message).toContain(`download from ${server.address}: the server answered 404`);
  });

  it('gives up a server that does not finish the handshake, and asks it only once', async () => {
    await using place = await BinariesWorld.create();
    let connections = 0;
    await using silent = createServer((socket) => {
      connections += 1;
      socket.on('error', () => undefined).resume();
    });
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const binaries = place.binaries({
      downloadBase: () => `https://127.0.0.1:${port}`,
      connectTimeoutMs: 50,
    });
    for (const name of ['kube-apiserver', 'kube-scheduler'] as const) {
      await expect(binaries.ensure({ name, version: '1.36.3' }, { signal })).rejects.toThrow(
        `download from https://127.0.0.1:${port}: no connection within 0.05 s`,
      );
    }
    expect(connections).toBe(1);
  });

  it('gives up a server that accepts and says nothing', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    server.on(`${path}.sha256`, () => undefined);
    const error = await failure(place, server, { idleTimeoutMs: 50 });
    expect(error.message).toContain('connected, but no answer within 0.05 s');
  });

  it('takes up a transfer that fell silent', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    server.on(path, (request, response) => {
      if (request.headers.range !== undefined) return serve(Buffer.from(content))(request, response);
      response.writeHead(200, { 'content-length': content.length }).write(content.slice(0, 50_000));
    });
    const binaries = place.binaries({ downloadBase: () => server.address, idleTimeoutMs: 2_000 });
    const location = await binaries.ensure(apiserver, { signal });
    expect(await readFile(location.path, 'utf8')).toBe(content);
  });

  it('ends at once when aborted, leaving neither lock nor temporary directory', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-apiserver', '1.36.3', content);
    const abort = new AbortController();
    server.on(path, () => abort.abort(new Error('stopped by the user')));
    const binaries = place.binaries({ downloadBase: () => server.address });
    await expect(binaries.ensure(apiserver, { signal: abort.signal })).rejects.toThrow('stopped by the user');
    expect(await readdir(join(place.cached('kube-apiserver', '1.36.3'), '..'))).toEqual([]);
    expect(await readdir(join(place.cache, 'binaries', '.tmp'))).toEqual([]);
  });
});

describe('the cache', () => {
  it('never uses a file that it did not install itself', async () => {
    await using place = await BinariesWorld.create();
    const path = await place.script(
      'cache/binaries/kube-apiserver/1.36.3/linux-amd64/kube-apiserver',
      content.slice(0, 99),
    );
    const binaries = place.binaries();
    expect(await binaries.find(apiserver)).toBeUndefined();
    const [listed] = await binaries.list([apiserver]);
    expect(listed?.notes).toEqual([`${path} has no record of its SHA-256; not used, it will be replaced`]);
  });

  it('fetches again what was damaged, even when size and time are as before', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    server.kubernetes('kube-apiserver', '1.36.3', content);
    const options = { downloadBase: () => server.address };
    const { path } = await place.binaries(options).ensure(apiserver, { signal });
    const { atime, mtime } = await stat(path);
    await writeFile(path, content.replace('xxxx', 'xxyx'));
    await utimes(path, atime, mtime);

    const binaries = place.binaries(options);
    expect(await binaries.find(apiserver)).toBeUndefined();
    expect((await binaries.ensure(apiserver, { signal })).source).toBe('download');
    expect(await readFile(path, 'utf8')).toBe(content);
    expect(place.messages('note').join()).toContain('not used, it will be replaced');
  });

  it('notices damage that happens after the first use', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    server.kubernetes('kube-apiserver', '1.36.3', content);
    const binaries = place.binaries({ downloadBase: () => server.address });
    const { path } = await binaries.ensure(apiserver, { signal });
    expect(await binaries.find(apiserver)).toBeDefined();
    await writeFile(path, content.replace('xxxx', 'xxyx'));
    await utimes(path, new Date(), new Date(Date.now() + 60_000));
    expect(await binaries.find(apiserver)).toBeUndefined();
  });

  it('is filled once by two processes that want the same at once', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    const path = server.kubernetes('kube-scheduler', '1.36.3', content);
    const waiting = Promise.withResolvers<void>();
    const told: unknown[] = [];
    server.on(path, async (request, response) => {
      await waiting.promise;
      await serve(Buffer.from(content))(request, response);
    });
    const run = async (): Promise<Record<string, unknown>> => {
      const script = join(import.meta.dirname, 'testing', 'ensure-once.ts');
      const child = spawn(process.execPath, [script, place.cache, server.address], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let last: Record<string, unknown> = {};
      for await (const line of createInterface({ input: child.stdout })) {
        last = JSON.parse(line) as Record<string, unknown>;
        if (last['stage'] === 'waiting') waiting.resolve();
        if (last['stage'] === 'ready') told.push(last['message']);
      }
      return last;
    };
    const results = await Promise.all([run(), run()]);
    expect(results.map(({ source }) => source).sort()).toEqual(['cache', 'download']);
    expect(told.sort()).toEqual(['downloaded', 'fetched by another process']);
    expect(server.count(path)).toBe(1);
  });
});

describe("the user's directories", () => {
  it('come first, and tell the version that is really there', async () => {
    await using place = await BinariesWorld.create();
    const path = await place.script('mine/kube-apiserver', program('Kubernetes v1.36.1'));
    const binaries = place.binaries({ env: place.env({ SKERRY_BINARIES: join(place.directory, 'mine') }) });
    expect(await binaries.ensure(apiserver, { signal })).toEqual({
      name: 'kube-apiserver',
      version: '1.36.1',
      path,
      source: 'directory',
    });
    const listed = await binaries.list();
    expect(listed.find(({ name }) => name === 'kube-apiserver')?.found?.sizeBytes).toBeGreaterThan(0);
    expect(listed.find(({ name }) => name === 'etcd')?.found).toBeUndefined();
  });

  it('are passed over for a version that they do not have, and it is said', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    server.kubernetes('kube-apiserver', '1.36.3', content);
    const path = await place.script('mine/kube-apiserver', program('Kubernetes v1.34.4'));
    const binaries = place.binaries({
      env: place.env({ KUBEBUILDER_ASSETS: join(place.directory, 'mine') }),
      downloadBase: () => server.address,
    });
    expect((await binaries.ensure(apiserver, { signal })).source).toBe('download');
    expect(place.messages('note')).toEqual([`${path} is version 1.34.4, not 1.36.3; not used`]);
  });

  it('include PATH for kubectl alone, which may be one minor version off', async () => {
    await using place = await BinariesWorld.create();
    await place.script('bin/kubectl', program('Client Version: v1.35.9'));
    await place.script('bin/etcd', program('etcd Version: 3.7.3'));
    const binaries = place.binaries({ env: { PATH: place.bin } });
    expect((await binaries.find({ name: 'kubectl', version: '1.36.3' }))?.version).toBe('1.35.9');
    expect(await binaries.find({ name: 'etcd', version: '3.7.3' })).toBeUndefined();
  });

  it('do not stop the search with a program that cannot run', async () => {
    await using place = await BinariesWorld.create();
    const path = await place.script('mine/kube-apiserver', '#!/nonexistent\n');
    const [listed] = await place
      .binaries({ userDirectories: [join(place.directory, 'mine')] })
      .list([apiserver]);
    expect(listed?.found).toBeUndefined();
    expect(listed?.notes[0]).toContain(`${path} does not tell its version`);
  });
});

describe('when nothing helps', () => {
  it('one message names each try, why it failed, and what can be done', async () => {
    await using place = await BinariesWorld.create();
    await place.script('mine/etcd', program('etcd Version: 3.5.9'));
    const closed = await freePort();
    const binaries = place.binaries({
      env: { PATH: place.bin, SKERRY_BINARIES: join(place.directory, 'mine') },
      downloadBase: () => `http://127.0.0.1:${closed}`,
    });
    const requests = [
      apiserver,
      { name: 'kube-scheduler', version: '1.36.3' },
      { name: 'etcd', version: '3.7.3' },
    ] as const;
    const error = await binaries.ensureAll(requests, { signal }).catch((reason: Error) => reason);
    expect(error).toBeInstanceOf(BinaryUnavailableError);
    expect(error).toMatchObject({ code: 'Unavailable', retryable: true });
    expect((error as Error).message).toBe(`\
kube-apiserver 1.36.3, kube-scheduler 1.36.3 (linux/amd64) could not be obtained:
  - directory ${place.directory}/mine (SKERRY_BINARIES): not there
  - cache ${place.cache}/binaries: not there
  - download from http://127.0.0.1:${closed}: connection refused
  - build from Go modules: there is no go command on PATH
etcd 3.7.3 (linux/amd64) could not be obtained:
  - directory ${place.directory}/mine (SKERRY_BINARIES): what is there is version 3.5.9, not 3.7.3
  - cache ${place.cache}/binaries: not there
  - download from http://127.0.0.1:${closed}: connection refused
  - build from Go modules: there is no go command on PATH
Any one of these helps:
  - set SKERRY_BINARIES to a directory that holds kube-apiserver 1.36, kube-scheduler 1.36, etcd 3.7
  - give this machine a way to the release servers: set HTTPS_PROXY, or SKERRY_DOWNLOAD_BASE to a mirror of them
  - install Go 1.26 or newer and let Skerry build them (about 7 minutes, once; needs a Go module proxy, see GOPROXY)`);
  });

  it('a request that could lead out of the cache is refused', async () => {
    await using place = await BinariesWorld.create();
    await expect(place.binaries().find({ name: 'etcd', version: '../../3.7.3' })).rejects.toMatchObject({
      code: 'InvalidRequest',
    });
    await expect(place.binaries().find({ name: 'etcd', version: '3.7' })).rejects.toThrow(
      'write it like 3.7.3',
    );
  });

  it('a cache that cannot be written says so and what to set', async () => {
    await using place = await BinariesWorld.create();
    await writeFile(place.cache, 'a file where the directory should be');
    await expect(place.binaries({ offline: true }).ensure(apiserver, { signal })).rejects.toThrow(
      /set SKERRY_CACHE/,
    );
  });
});

/** Sends 50,000 bytes, and breaks the connection when they have reached the client's file. */
async function sendAndBreak(response: ServerResponse, place: BinariesWorld): Promise<void> {
  response.writeHead(200, { 'content-length': content.length }).write(content.slice(0, 50_000));
  const partial = `${place.cached('kube-apiserver', '1.36.3')}.partial`;
  await expect.poll(async () => (await stat(partial)).size).toBe(50_000);
  response.destroy();
}

async function failure(
  place: BinariesWorld,
  server: ReleaseServer,
  options = {},
): Promise<BinaryUnavailableError> {
  const env = { PATH: place.bin };
  const binaries = place.binaries({ env, downloadBase: () => server.address, ...options });
  const error: unknown = await binaries.ensure(apiserver, { signal }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(BinaryUnavailableError);
  expect(place.progress.at(-1)?.stage).toBe('failed');
  return error as BinaryUnavailableError;
}
