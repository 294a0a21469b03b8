import { Binaries } from '../index.ts';

/** Run as a process of its own: fetches kube-scheduler and prints each progress and the result as a line of JSON. */
const [cacheDir = '', downloadBase = ''] = process.argv.slice(2);
const binaries = new Binaries({
  cacheDir,
  env: { PATH: '/usr/bin:/bin' },
  platform: { os: 'linux', arch: 'amd64' },
  downloadBase: () => downloadBase,
  onProgress: (progress) => console.log(JSON.stringify(progress)),
});
const location = await binaries.ensure(
  { name: 'kube-scheduler', version: '1.36.3' },
  { signal: new AbortController().signal },
);
console.log(JSON.stringify(location));
