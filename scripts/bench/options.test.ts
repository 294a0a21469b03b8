import { describe, expect, it } from 'vitest';
import { ArgumentError, type BenchOptions, parseArguments } from './options.ts';

const known = [
  { name: 'burst', summary: 'many pods at once' },
  { name: 'latency', summary: 'one pod at a time' },
  { name: 'fairness', summary: 'greedy and regular tenants' },
  { name: 'soak', summary: 'for a long time', onlyWhenNamed: true },
];

function parse(...argv: string[]): BenchOptions {
  return parseArguments(argv, known);
}

function refusal(...argv: string[]): ArgumentError {
  try {
    parse(...argv);
  } catch (error) {
    if (error instanceof ArgumentError) return error;
    throw error;
  }
  throw new Error('was accepted');
}

describe('the command line of the benchmarks', () => {
  it('runs every scenario in the usual sizes by default', () => {
    expect(parse()).toEqual({
      scenarios: ['burst', 'latency', 'fairness'],
      sides: 'both',
      repeats: 3,
      tenants: 20,
      pods: 50,
      inFlight: 20,
      latencyPods: 100,
      rate: 5,
      greedy: 4,
      greedyPods: 300,
      regularPods: 10,
      creates: 10,
      atOnce: 10,
      deletePods: 20,
      operations: 2_000,
      lanes: 4,
      standing: [2_000],
      minutes: 30,
      soakRate: 20,
      seed: 1,
      idle: 30,
      sleepers: 1_000,
      objects: [1_000, 50_000],
      nodes: 20,
      timeoutMs: 300_000,
    });
  });

  it('runs the named scenarios in its own order', () => {
    expect(parse('latency', 'burst').scenarios).toEqual(['burst', 'latency']);
  });

  it('leaves out what takes long unless it is named', () => {
    expect(parse('soak', 'burst').scenarios).toEqual(['burst', 'soak']);
  });

  it('takes several numbers of standing pods, each once and from few to many', () => {
    expect(parse('--standing', '10000,2000,2000').standing).toEqual([2_000, 10_000]);
    expect(refusal('--standing', '2000,many').message).toContain('Give a whole number');
    expect(refusal('--standing', '').message).toContain('Give a whole number');
  });

  it('derives sizes that are not given from tenants and pods', () => {
    expect(parse('--tenants', '10', '--pods', '20')).toMatchObject({
      greedy: 2,
      greedyPods: 120,
      regularPods: 4,
      latencyPods: 40,
      operations: 400,
      standing: [400],
      atOnce: 10,
    });
    expect(parse('--tenants', '2').atOnce).toBe(2);
  });

  it('keeps at least one greedy tenant and one pod of each kind', () => {
    expect(parse('--tenants', '2', '--pods', '1')).toMatchObject({ greedy: 1, regularPods: 1 });
  });

  it('takes sizes as they are given', () => {
    expect(parse('fairness', '--greedy', '3', '--greedy-pods', '900', '--regular-pods', '7')).toMatchObject({
      greedy: 3,
      greedyPods: 900,
      regularPods: 7,
    });
  });

  it('says where a running stack is', () => {
    expect(
      parse('--state-dir', 'state', '--kubeconfig', 'file', '--json', 'out.json', '--plots', 'docs'),
    ).toMatchObject({
      stateDir: 'state',
      kubeconfig: 'file',
      json: 'out.json',
      plots: 'docs',
    });
  });

  it('refuses a scenario that does not exist, and names those that do', () => {
    expect(refusal('bursts').message).toContain('choose from burst, latency, fairness, soak');
  });

  it('refuses sizes that are no whole numbers', () => {
    expect(refusal('--pods', '0').message).toContain('Give a whole number of at least 1');
    expect(refusal('--pods', '1.5').message).toContain('Give a whole number');
    expect(refusal('--pods', 'many').exitCode).not.toBe(0);
  });

  it('refuses fairness without a regular tenant', () => {
    expect(refusal('fairness', '--tenants', '1').message).toContain('more --tenants');
    expect(parse('burst', '--tenants', '1').tenants).toBe(1);
  });

  it('shows help, with the scenarios, and says that this was no failure', () => {
    let shown = '';
    const stream = {
      write: (text: string) => {
        shown += text;
      },
    };
    expect(() => parseArguments(['--help'], known, { stdout: stream, stderr: stream })).toThrow(
      expect.objectContaining({ exitCode: 0 }),
    );
    expect(shown).toContain('greedy and regular tenants');
  });
});
