import { join } from 'node:path';
import { messageOf } from '../kube/index.ts';
import { runCompare } from './bench/compare.ts';
import { ArgumentError } from './bench/options.ts';
import { runBench } from './bench/run.ts';

/** `npm run bench`: tables on stdout, progress on stderr, all figures in a JSON file. `compare A B` sets two such files side by side. */
async function main(): Promise<void> {
  const argv = process.argv.slice(2);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => stop.abort(new Error(`received ${signal}`)));
  }
  const startedAt = performance.now();
  try {
    if (argv[0] === 'compare') {
      await runCompare(argv.slice(1), process.stdout);
      return;
    }
    await runBench({
      argv,
      env: process.env,
      root: join(import.meta.dirname, '..'),
      signal: stop.signal,
      onProgress: (message) => {
        const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
        process.stderr.write(`${seconds.padStart(6)} s  ${message}\n`);
      },
      onReport: (tables) => process.stdout.write(tables),
    });
  } catch (error) {
    if (error instanceof ArgumentError) {
      if (error.exitCode !== 0) process.stderr.write(`bench: ${error.message}\n`);
      process.exitCode = error.exitCode;
      return;
    }
    process.stderr.write(`bench: ${messageOf(error)}\n`);
    process.exitCode = stop.signal.aborted ? 130 : 1;
  }
}

await main();
