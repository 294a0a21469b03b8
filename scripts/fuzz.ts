import { parseArgs } from 'node:util';
import { execa } from 'execa';

/**
 * `npm run fuzz`: the fuzz tests (`*.fuzz.test.ts`) for longer than in `npm test`, each property for `--seconds`
 * (default 60), all with `--seed` if given. A failure prints the seed and the smallest input that leads to it.
 */
const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, seed: { type: 'string' } },
});
for (const [name, value = '0'] of Object.entries(values)) {
  if (!Number.isInteger(Number(value)) || value.trim() === '') {
    console.error(`--${name} takes a whole number, not ${JSON.stringify(value)}`);
    process.exit(1);
  }
}
const { exitCode } = await execa(
  'vitest',
  ['run', '--project', 'unit', '.fuzz.test.ts', `--testTimeout=${(Number(values.seconds) + 60) * 1_000}`],
  {
    preferLocal: true,
    stdio: 'inherit',
    reject: false,
    env: {
      SKERRY_FUZZ_SECONDS: values.seconds,
      ...(values.seed === undefined ? {} : { SKERRY_FUZZ_SEED: values.seed }),
    },
  },
);
process.exit(exitCode ?? 1);
