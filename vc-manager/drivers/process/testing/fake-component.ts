import type { ComponentPlan } from '../../../control-plane/plan.ts';

/** A tiny component: serves HTTP on its port, says what it does, and ends as its arguments say. */
const script = `
const { createServer } = require('node:http');
const [port, ...words] = process.argv.slice(1);
console.log('starting', ...words);
if (words.includes('loud')) for (let n = 0; n < 11 * 1024; n++) console.log('x'.repeat(1023));
if (words.includes('exit')) { console.error('cannot go on'); process.exit(7); }
if (words.includes('deaf')) process.on('SIGTERM', () => console.log('deaf'));
process.on('SIGUSR2', () => process.exit(3));
const { readFileSync } = require('node:fs');
if (process.env.SHOW) console.log(readFileSync(process.env.SHOW, 'utf8'));
createServer((request, response) => {
  response.statusCode = words.includes('unready') ? 500 : 200;
  response.end(String(process.pid));
}).listen(Number(port), '127.0.0.1');
`;

export function fakeComponent(
  name: string,
  port: number,
  words: readonly string[] = [],
  changes: Partial<ComponentPlan> = {},
): ComponentPlan {
  return {
    name,
    binary: { command: process.execPath },
    args: ['-e', script, '--', String(port), ...words],
    env: {},
    files: [],
    ports: [{ name, port, host: '127.0.0.1' }],
    probe: { scheme: 'http', host: '127.0.0.1', port, path: '/readyz', timeoutMs: 60_000 },
    dependsOn: [],
    stopTimeoutMs: 5000,
    ...changes,
  };
}
