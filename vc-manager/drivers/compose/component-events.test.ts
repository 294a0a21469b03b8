import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../../kube/index.ts';
import type { ComponentPlan } from '../../control-plane/plan.ts';
import { ComponentWatch, type EngineEvent, followEngine } from './component-events.ts';
import { type ContainerSpec, containerSpec } from './compose-file.ts';
import type { Docker } from './docker.ts';

describe('component watch', () => {
  const { signal } = new AbortController();
  let server: Server;
  let status = 200;
  let told: string[];
  let watch: ComponentWatch;

  beforeEach(async () => {
    status = 200;
    told = [];
    server = createServer((_, response) => {
      response.statusCode = status;
      response.end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    watch = new ComponentWatch({
      id: 'blue',
      component: 'etcd',
      clock: systemClock,
      emit: (what) => told.push(what),
      tail: async () => ['the end of the log'],
    });
  });

  afterEach(async () => {
    watch.end();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  function target(timeoutMs = 10_000): ContainerSpec {
    const { port } = server.address() as AddressInfo;
    const component: ComponentPlan = {
      name: 'etcd',
      binary: { name: 'etcd', version: '3.7.3' },
      args: [],
      env: {},
      files: [],
      ports: [],
      probe: { scheme: 'http', host: '127.0.0.1', port, path: '/health', timeoutMs },
      dependsOn: [],
      stopTimeoutMs: 1000,
    };
    return containerSpec('blue', component);
  }

  function event(what: EngineEvent['what'], at = new Date()): EngineEvent {
    return { id: 'blue', component: 'etcd', what, at, ...(what === 'died' ? { exitCode: 7 } : {}) };
  }

  describe('ComponentWatch', () => {
    it('tells a start once and before readiness, however late the engine says it', async () => {
      watch.expectStart(target());
      watch.hasStarted();
      await watch.ready(signal);
      watch.onEvent(event('started'));
      expect(told).toEqual(['started', 'ready']);
      expect(watch.state).toBe('running');
    });

    it('tells a start after a crash, though the engine has not said a word of the first one', async () => {
      watch.expectStart(target());
      watch.hasStarted();
      await watch.ready(signal);
      watch.adopt(target(), new Date());
      watch.onEvent(event('died'));
      watch.onEvent(event('started'));
      expect(told.filter((what) => what === 'started')).toHaveLength(2);
    });

    it('takes the word of the engine when that comes first', async () => {
      watch.expectStart(target());
      watch.onEvent(event('started'));
      watch.hasStarted();
      await watch.ready(signal);
      expect(told).toEqual(['started', 'ready']);
    });

    it('looks again whether it is ready when it was started again', async () => {
      watch.adopt(target(), new Date());
      await watch.ready(signal);
      watch.onEvent(event('died'));
      expect(watch.state).toBe('starting');
      expect(watch.lastExit).toMatchObject({ code: 7 });
      watch.onEvent(event('started'));
      await expect.poll(() => told).toEqual(['ready', 'exited', 'started', 'ready']);
    });

    it('gives up waiting for one that exits again and again, with the end of its log', async () => {
      status = 500;
      watch.expectStart(target());
      const waiting = watch.ready(signal);
      for (let exits = 0; exits < 5; exits++) {
        watch.onEvent(event('started'));
        watch.onEvent(event('died'));
      }
      await expect(waiting).rejects.toMatchObject({
        code: 'KeepsExiting',
        message: expect.stringMatching(/exited 5 times in a row \(exit code 7\).*\nthe end of the log/s),
      });
      expect(watch.state).toBe('failed');
    });

    it('does not count what happened to an earlier container', async () => {
      const before = new Date(Date.now() - 1000);
      watch.adopt(target(), new Date());
      watch.onEvent(event('died', before));
      await watch.ready(signal);
      expect(told).toEqual(['ready']);
    });

    it('says which file of the probe is not there', async () => {
      status = 500;
      const { component, ...rest } = target(1_000);
      const probe = { ...component.probe, scheme: 'https', caFile: 'missing.crt' } as ComponentPlan['probe'];
      watch.adopt({ ...rest, component: { ...component, ...(probe && { probe }) } }, new Date());
      await expect(watch.ready(signal)).rejects.toThrow('etcd has no file missing.crt');
    });

    it('says why it is not ready in time', async () => {
      status = 500;
      watch.adopt(target(2_000), new Date());
      await expect(watch.ready(signal)).rejects.toMatchObject({
        code: 'NotReady',
        message: expect.stringContaining('/health answered 500'),
      });
    });
  });
});

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
