import { createInterface } from 'node:readline';
import type { Reader } from './reader.ts';

export interface StartedDashboard {
  /** Signs in whoever opens it first. */
  readonly link: string;
  readonly origin: string;
  stop(): Promise<void>;
}

/** The dashboard, as somebody at a terminal starts it. */
export async function startDashboard(
  reader: Reader,
  command = 'vc-manager dashboard',
): Promise<StartedDashboard> {
  const child = reader.start(command);
  const link = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    void child.then(({ all }) => reject(new Error(`${command} ended: ${all}`)));
  });
  return {
    link,
    origin: new URL(link).origin,
    stop: async () => {
      child.kill('SIGINT');
      await child;
    },
  };
}
