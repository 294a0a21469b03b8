import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { CurrentTenant, Watchdog } from '../watchdog.ts';

// A process with a watchdog that works for two tenants: for `quiet` with pauses, for `blue` without any, in the way that
// the second argument names. The first is a kubeconfig, the third a file.
const [kubeconfig, how, file = ''] = process.argv.slice(2);

const atWork = new CurrentTenant();
const watchdog = new Watchdog({
  atWork,
  suspect: (name) => ({ namespace: 'acme', name, uid: name }),
  largest: () => undefined,
  fills: () => false,
  kubeconfig,
  onNoted: ({ name }) => console.log(`noted ${name}`),
  onProblem: (error) => console.log(`problem ${String(error)}`),
});
const stop = new AbortController();
const watching = watchdog.run(stop.signal);

const ways: Record<string, () => void> = {
  'until the file is there': () => {
    while (!existsSync(file));
  },
  'until memory is full': () => {
    const all: object[] = [];
    for (;;) all.push({ n: all.length, next: all.at(-1), text: String(all.length) });
  },
};

const quiet = atWork.run('quiet', async () => {
  for (let n = 0; n < 20; n++) {
    const until = performance.now() + 20;
    while (performance.now() < until);
    await delay(1);
  }
});
const blue = atWork.run('blue', async () => {
  await quiet;
  console.log('begins');
  ways[how ?? '']?.();
});
await blue;
process.on('message', () => stop.abort());
await watching;
