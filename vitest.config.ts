import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{kube,syncer,vc-manager,scripts}/**/*.test.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/**/*.test.ts'],
          testTimeout: 180_000,
          hookTimeout: 900_000,
          fileParallelism: false,
          globalSetup: ['test/harness/global-setup.ts'],
        },
      },
    ],
  },
});
