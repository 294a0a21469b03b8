import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { identify } from '../os/process-identity.ts';
import { BinariesWorld, program } from './testing/binaries-world.ts';
import { ReleaseServer } from './testing/release-server.ts';

const apiserver = { name: 'kube-apiserver', version: '1.36.3' } as const;
const { signal } = new AbortController();
const moduleFile = `\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`;

/** A `go` that keeps a log of its calls and builds what the test says. */
async function fakeGo(place: BinariesWorld, build: string, version = 'go1.26.8'): Promise<void> {
  await place.script('kubernetes.mod', moduleFile);
  const script = `\
#!/bin/sh
echo "go $*" >> '${place.directory}/calls'
case "$1" in
  env) echo ${version} ;;
  list)
    if [ "$2" = -deps ]; then printf 'k8s.io/api/core/v1\\nfmt\\n'
    else echo '{ "GoMod": "${place.directory}/kubernetes.mod" }'; fi ;;
  get) echo 'go: downloading k8s.io/api v0.36.3' >&2; cp go.mod '${place.directory}/go.mod' ;;
  build)
    env | grep -E '^(GO|CGO)' | sort > '${place.directory}/environment'
    while [ "$1" != -o ]; do shift; done
    target=$2
    ${build} ;;
esac
`;
  await place.script('bin/go', script);
}

function successfulBuild(version: string): string {
  return `echo k8s.io/api/core/v1 >&2; printf '%s' "${program(`Kubernetes v${version}`).replaceAll('\n', '\\n')}" | sed 's/\\\\n/\\n/g' > "$target"; chmod +x "$target"`;
}

describe('a version that there is not', () => {
  const wanted = { ...apiserver, version: '1.36.99' };
  /** Its module proxy has two patches of 1.36, and one of 1.35. */
  const withProxy = (place: BinariesWorld, isThere: boolean) =>
    place.script(
      'bin/go',
      `#!/bin/sh
echo "go $*" >> '${place.directory}/calls'
case "$*" in
  'list -m -versions k8s.io/kubernetes') echo 'k8s.io/kubernetes v1.35.4 v1.36.1 v1.36.3' ;;
  'list -m k8s.io/kubernetes@v1.36.99') ${isThere ? 'echo k8s.io/kubernetes v1.36.99' : 'exit 1'} ;;
  *) exit 1 ;;
esac
`,
    );
  const calls = (place: BinariesWorld) => readFile(join(place.directory, 'calls'), 'utf8');

  it('is refused with those that the module proxy has, before anything is built', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    await withProxy(place, false);
    const binaries = place.binaries({ downloadBase: () => server.address });
    await expect(binaries.ensure(wanted, { signal })).rejects.toMatchObject({
      code: 'NoSuchVersion',
      retryable: false,
      message: 'there is no Kubernetes 1.36.99, says the Go module proxy. Of 1.36 it has 1.36.1, 1.36.3.',
    });
    expect(await calls(place)).not.toContain('go env');
    await expect(binaries.ensure({ ...wanted, version: '1.37.0' }, { signal })).rejects.toThrow(
      'there is no Kubernetes 1.37.0, says the Go module proxy. The newest that it has is 1.36.3.',
    );
  });

  it('is refused with the newest that the release server has, without Go', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    server.file('/dl.k8s.io/release/stable-1.36.txt', 'v1.36.12\n');
    const binaries = place.binaries({ downloadBase: () => server.address });
    await expect(binaries.ensure(wanted, { signal })).rejects.toMatchObject({
      code: 'NoSuchVersion',
      message: expect.stringMatching(
        /no Kubernetes 1\.36\.99, says 127\.0\.0\.1:\d+\. Of 1\.36 it has 1\.36\.12\./,
      ),
    });
    // A mirror need not have all that there are.
    await expect(binaries.ensure({ ...wanted, version: '1.36.9' }, { signal })).rejects.toMatchObject({
      code: 'Unavailable',
    });
  });

  it('is built when the list of the proxy is only old', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    await withProxy(place, true);
    const binaries = place.binaries({ downloadBase: () => server.address });
    await expect(binaries.ensure(wanted, { signal })).rejects.toMatchObject({ code: 'Unavailable' });
    expect(await calls(place)).toContain('go env');
  });

  it('is tried as any other where nobody is asked, or nobody says', async () => {
    await using place = await BinariesWorld.create();
    await using server = await ReleaseServer.start();
    await withProxy(place, false);
    const tried = { code: 'Unavailable' };
    await expect(place.binaries({ offline: true }).ensure(wanted, { signal })).rejects.toMatchObject(tried);
    expect(await calls(place)).not.toContain('-versions');
    await place.script('bin/go', '#!/bin/sh\nexit 1\n');
    const binaries = place.binaries({ downloadBase: () => server.address });
    await expect(binaries.ensure(wanted, { signal })).rejects.toMatchObject(tried);
  });
});

describe('building from Go modules', () => {
  it('builds in a throw-away module, with the version stamped, and installs the result', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, successfulBuild('1.36.3'));
    const binaries = place.binaries({ offline: true });
    const location = await binaries.ensure(apiserver, { signal });
    expect(location).toEqual({
      ...apiserver,
      path: place.cached('kube-apiserver', '1.36.3'),
      source: 'build',
    });
    expect((await execa(location.path, ['--version'])).stdout).toBe('Kubernetes v1.36.3');
    expect((await binaries.ensure(apiserver, { signal })).source).toBe('cache');

    expect(await readFile(join(place.directory, 'go.mod'), 'utf8')).toBe(`\
module skerry.local/build
go 1.26.0
godebug default=go1.26
require k8s.io/kubernetes v1.36.3
replace k8s.io/api => k8s.io/api v0.36.3
replace k8s.io/client-go => k8s.io/client-go v0.36.3
`);
    const calls = await readFile(join(place.directory, 'calls'), 'utf8');
    expect(calls).toContain('go get k8s.io/kubernetes@v1.36.3\n');
    expect(calls).toMatch(/go build .*-trimpath .*-X k8s.io\/component-base\/version.gitVersion=v1.36.3 /);
    expect(calls).toMatch(/ k8s.io\/kubernetes\/cmd\/kube-apiserver\n$/);
    expect((await readFile(join(place.directory, 'environment'), 'utf8')).split('\n')).toEqual(
      expect.arrayContaining([
        'CGO_ENABLED=0',
        'GOFLAGS=-mod=mod',
        'GOPROXY=off',
        'GOTOOLCHAIN=local',
        'GOWORK=off',
      ]),
    );
    expect(place.messages('building')).toEqual(
      expect.arrayContaining(['fetching modules (1)', 'compiling (1 of 2 packages)']),
    );
  });

  it('does not accept a program of another version than asked for', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, successfulBuild('0.0.0'));
    await expect(place.binaries({ offline: true }).ensure(apiserver, { signal })).rejects.toThrow(
      'build from Go modules: the program that was built says that it is 0.0.0',
    );
    expect(await place.binaries().find(apiserver)).toBeUndefined();
  });

  it('shows the end of what go said when it fails', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(
      place,
      'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo "line $i" >&2; done; exit 1',
    );
    const error: unknown = await place
      .binaries({ offline: true })
      .ensure(apiserver, { signal })
      .catch((e: unknown) => e);
    const { message } = error as Error;
    expect(message).toContain('build from Go modules: go build failed:\n      line 2\n');
    expect(message).toContain('line 16');
    expect(message).not.toContain('line 1\n');
  });

  it('refuses a toolchain that is too old before it fetches anything', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, successfulBuild('1.36.3'), 'go1.25.7');
    await expect(place.binaries({ offline: true }).ensure(apiserver, { signal })).rejects.toThrow(
      'kube-apiserver 1.36.3 needs Go 1.26 or newer, this machine has go1.25.7',
    );
    expect(await readFile(join(place.directory, 'calls'), 'utf8')).toBe('go env GOVERSION\n');
  });

  it('believes the module about versions that are not known here', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, successfulBuild('1.37.0'), 'go1.25.7');
    const request = { name: 'kube-apiserver', version: '1.37.0' } as const;
    await expect(place.binaries({ offline: true }).ensure(request, { signal })).rejects.toThrow(
      'kube-apiserver 1.37.0 needs Go 1.26.0 or newer',
    );
  });

  it('ends the compilers too when aborted, and leaves nothing behind', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, `sleep 1000 & echo $! > '${place.directory}/compiler'; echo compiler >&2; wait`);
    const abort = new AbortController();
    const binaries = place.binaries({
      offline: true,
      onProgress: ({ message }) => {
        if (message === 'compiling') abort.abort(new Error('stopped by the user'));
      },
    });
    await expect(binaries.ensure(apiserver, { signal: abort.signal })).rejects.toThrow('stopped by the user');
    const compiler = Number(await readFile(join(place.directory, 'compiler'), 'utf8'));
    expect(compiler).toBeGreaterThan(0);
    await expect.poll(() => identify(compiler)).toBeUndefined();
    expect(await readdir(join(place.cache, 'binaries', '.tmp'))).toEqual([]);
    expect(await readdir(join(place.cached('kube-apiserver', '1.36.3'), '..'))).toEqual([]);
  });

  it('removes what a killed build left behind', async () => {
    await using place = await BinariesWorld.create();
    await fakeGo(place, successfulBuild('1.36.3'));
    const left = 'etcd_999999999_1_abcdef';
    await place.script(`cache/binaries/.tmp/${left}/etcd`, 'half');
    await place.binaries({ offline: true }).ensure(apiserver, { signal });
    expect(await readdir(join(place.cache, 'binaries', '.tmp'))).toEqual([]);
  });
});
