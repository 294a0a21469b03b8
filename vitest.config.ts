import { defineConfig } from 'vitest/config';
import { WaitingFirst } from './test/real-node/suite/waiting-first.ts';

export default defineConfig({
  test: {
    sequence: { sequencer: WaitingFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{kube,syncer,vc-manager,scripts}/**/*.test.ts', 'test/real-node/*/**/*.test.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/**/*.test.ts'],
          exclude: ['test/real-node/**'],
          testTimeout: 180_000,
          hookTimeout: 900_000,
          fileParallelism: false,
          globalSetup: ['test/harness/global-setup.ts'],
        },
      },
      {
        test: {
          name: 'real-node',
          include: ['test/real-node/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 300_000,
          maxWorkers: 2,
          globalSetup: ['test/real-node/suite/global-setup.ts'],
        },
      },
    ],
  },
});
