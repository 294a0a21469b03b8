import { describe, expect, it } from 'vitest';
import { Binaries, type BinaryLocation, type BinaryName, defaultVersions } from '../../binaries/index.ts';
import { fetchBinaries, kubectlOrNone } from './start.ts';

describe('fetchBinaries', () => {
  const { signal } = new AbortController();
  const all = new Binaries({ cacheDir: '/nowhere', env: {} });
  const etcd = { name: 'etcd', version: defaultVersions.etcd } as const;
  const kwok = { name: 'kwok', version: defaultVersions.kwok } as const;

  function fetching(isLocal: boolean, of: (name: BinaryName) => Promise<string>) {
    const asked: string[] = [];
    const ensure = async ({ name, version }: { name: BinaryName; version: string }) => {
      asked.push(name);
      return { name, version, path: await of(name), source: 'build' } satisfies BinaryLocation;
    };
    const binaries = { ensure, all: all.all };
    return { asked, ...fetchBinaries(binaries, { isLocal, signal }) };
  }

  it('asks for each once, in the order of the start, and has one while another is being built', async () => {
    const built = Promise.withResolvers<string>();
    const { asked, ensure, kubectl } = fetching(true, async (name) =>
      name === 'kwok' ? built.promise : `/cache/${name}`,
    );
    expect((await ensure(etcd, { signal })).path).toBe('/cache/etcd');
    expect(await kubectl).toBe('/cache/kubectl');
    built.resolve('/cache/kwok');
    expect((await ensure(kwok, { signal })).path).toBe('/cache/kwok');
    expect(asked).toEqual([
      'etcd',
      'kube-apiserver',
      'kube-controller-manager',
      'kube-scheduler',
      'kwok',
      'kubectl',
    ]);
  });

  it('reports one that cannot be had when the others have been tried', async () => {
    const built = Promise.withResolvers<string>();
    const { ensure } = fetching(true, async (name) => {
      if (name === 'etcd') throw new Error('no etcd');
      return name === 'kwok' ? built.promise : `/cache/${name}`;
    });
    let isReported = false;
    const reported = ensure(etcd, { signal }).catch((error: Error) => {
      isReported = true;
      return error.message;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isReported).toBe(false);
    built.resolve('/cache/kwok');
    expect(await reported).toBe('no etcd');
  });

  it('leaves out what only a local super cluster needs', () => {
    const { asked } = fetching(false, async (name) => `/cache/${name}`);
    expect(asked).toEqual(['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']);
  });
});

it('a kubectl that cannot be had ends nothing: it is told', async () => {
  const notes: string[] = [];
  const progress = { note: (message: string) => void notes.push(message) };
  const { signal } = new AbortController();
  expect(await kubectlOrNone(Promise.resolve('/cache/kubectl'), progress, signal)).toBe('/cache/kubectl');
  expect(await kubectlOrNone(Promise.reject(new Error('no Go')), progress, signal)).toBeUndefined();
  expect(notes).toEqual([expect.stringMatching(/^kubectl is not there: .*no Go/)]);
});

it('one that is interrupted ends with the rest', async () => {
  const progress = { note: () => undefined };
  const aborted = AbortSignal.abort(new Error('Ctrl-C'));
  await expect(kubectlOrNone(Promise.reject(new Error('cut')), progress, aborted)).rejects.toThrow('Ctrl-C');
});
