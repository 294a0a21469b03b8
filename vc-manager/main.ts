import { runCli } from './cli/program.ts';

// A terminal that was closed cannot be told anything; what runs has to be stopped in order all the same.
process.stderr.on('error', () => undefined);

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
});
