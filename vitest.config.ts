import { defineConfig } from 'vitest/config';
import { patienceMs } from './test/harness/poll.ts';
import { LongestSuiteFirst } from './test/real-node/suite/longest-suite-first.ts';

/** Suites that are broad rather than deep run with `npm run test:all` only. */
const broadSuites = process.env['SKERRY_TEST_ALL']
  ? []
  : [
      'test/chaos/**',
      'test/bench.test.ts',
      'test/real-node/harness.test.ts',
      'test/real-node/chart-variants.test.ts',
      'test/real-node/kubernetes-manager.test.ts',
    ];

/** Suites that `npm test` runs on another stack beside this one. */
const leftOut = (process.env['SKERRY_E2E_LEFT_OUT'] ?? '').split(',').filter((each) => each !== '');

/** What a failed comparison says in its message, which is all that the closing lines of a run tell. Characters. */
const chaiConfig = { truncateThreshold: 1_000 };

/** Several waits of a test that each take most of `patienceMs` must not come to more: like that, it ends a hang only. */
const wholeTestMs = 5 * patienceMs;

export default defineConfig({
  test: {
    sequence: { sequencer: LongestSuiteFirst },
    // What suites find wrong when they go down counts; by default it is cut off, silently, after 10 s.
    teardownTimeout: 600_000,
    projects: [
      {
        test: {
          name: 'unit',
          chaiConfig,
          include: [
            '{api,dashboard,gateway,kube,program,syncer,vc-manager,scripts}/**/*.test.ts',
            'test/{docker,real-node}/*/**/*.test.ts',
            'test/harness/**/*.test.ts',
            'test/{conformance,deploy,s3}/**/*.test.ts',
            'test/attacks/attempts.test.ts',
          ],
          // A process and all modules anew for each file cost as much as the tests. Files put back what they change of the process.
          isolate: false,
          // Property tests take a tenth of it alone, and what waits for leases a quarter; a busy machine must not make them fail.
          testTimeout: patienceMs,
          hookTimeout: patienceMs,
          expect: { poll: { timeout: patienceMs / 3 } },
          // By default one processor is left free, which is half of a small machine.
          maxWorkers: '100%',
        },
      },
      {
        test: {
          name: 'e2e',
          chaiConfig,
          include: ['test/**/*.test.ts'],
          exclude: [
            'test/{docker,real-node,harness,conformance,deploy,s3}/**',
            'test/attacks/attempts.test.ts',
            ...broadSuites,
            ...leftOut,
            ...(process.env['SKERRY_E2E_EARLIER_VERSIONS'] ? [] : ['test/version-change.test.ts']),
          ],
          testTimeout: wholeTestMs,
          hookTimeout: wholeTestMs,
          expect: { poll: { timeout: patienceMs } },
          fileParallelism: false,
          globalSetup: ['test/harness/global-setup.ts'],
        },
      },
      {
        test: {
          name: 'real-node',
          chaiConfig,
          include: ['test/real-node/*.test.ts'],
          exclude: broadSuites,
          testTimeout: wholeTestMs,
          hookTimeout: wholeTestMs,
          expect: { poll: { timeout: patienceMs } },
          maxWorkers: 2,
          globalSetup: ['test/real-node/suite/global-setup.ts'],
        },
      },
      {
        test: {
          name: 'docker',
          chaiConfig,
          include: ['test/docker/*.test.ts'],
          testTimeout: wholeTestMs,
          hookTimeout: wholeTestMs,
          expect: { poll: { timeout: patienceMs } },
          fileParallelism: false,
          globalSetup: ['test/docker/engine/global-setup.ts'],
        },
      },
    ],
  },
});
