import { describe, expect, it } from 'vitest';
import type { Clock } from '../../../kube/index.ts';
import type { Docker } from './docker.ts';
import { type EngineEvent, followEngine } from './engine-events.ts';

const clock: Clock = { now: () => 1_000_000, monotonic: () => 0, sleep: async () => undefined };

function line(Action: string, seconds: number, more: Record<string, string> = {}): string {
  const Attributes = { 'skerry.dev/id': 'blue', 'skerry.dev/component': 'etcd', ...more };
  return JSON.stringify({ Action, timeNano: seconds * 1e9, Actor: { ID: 'c1', Attributes } });
}

/** Each connection gives its lines; the last one ends everything. */
async function follow(...connections: string[][]): Promise<{ told: string[]; asked: string[] }> {
  const told: EngineEvent[] = [];
  const asked: string[] = [];
  const end = new AbortController();
  const docker: Pick<Docker, 'lines'> = {
    async *lines(args) {
      asked.push(args[args.indexOf('--since') + 1] ?? '');
      yield* connections.shift() ?? [];
      if (connections.length === 0) end.abort();
    },
  };
  await followEngine(docker, { clock, signal: end.signal, tell: (event) => told.push(event) });
  return { told: told.map(({ what, exitCode }) => `${what}${exitCode ?? ''}`), asked };
}

describe('followEngine', () => {
  it('tells ends that nobody asked for, and every start', async () => {
    const { told } = await follow([
      line('die', 1, { exitCode: '137' }),
      line('start', 2),
      line('kill', 3, { signal: '15' }),
      line('die', 4, { exitCode: '0' }),
      line('stop', 5),
      line('start', 6),
      line('kill', 7, { signal: '1' }),
      line('die', 8, { exitCode: '1' }),
    ]);
    expect(told).toEqual(['died137', 'started', 'started', 'died1']);
  });

  it('goes on where the connection broke, and tells nothing twice', async () => {
    const { told, asked } = await follow(
      [line('start', 2)],
      ['error during connect', line('start', 2), line('die', 3, { exitCode: '2' })],
    );
    expect(told).toEqual(['started', 'died2']);
    expect(asked).toEqual(['1000.000', '2.000']);
  });
});
