import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** What the tenants' datastore of a state directory says of itself, as Prometheus' text. */
export async function datastoreMetrics(stateDir: string): Promise<string> {
  const ports = JSON.parse(await readFile(join(stateDir, 'datastore', 'ports.json'), 'utf8')) as {
    'datastore-metrics': number;
  };
  const answer = await fetch(`http://127.0.0.1:${ports['datastore-metrics']}/metrics`);
  return answer.text();
}
