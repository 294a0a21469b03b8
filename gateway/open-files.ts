import { maxHellos } from './gateway.ts';

/** What is open beside connections: a port for each of some hundred tenants, what goes to the super cluster, metrics. */
const others = 1_024;

/** In words, that the limit of open files ends connections before `--connections` does; undefined: it does not. */
export function tooFewOpenFiles(limit: number | undefined, connections: number): string | undefined {
  // One to the client, and one to the API server.
  const needed = 2 * connections + maxHellos + others;
  if (limit === undefined || limit >= needed) return undefined;
  const safe = Math.floor((limit - maxHellos - others) / 2);
  return (
    `${limit} files may be open, and --connections ${connections} can take ${needed}: clients may be refused before there are ` +
    'so many connections, whichever tenant they belong to. Raise the hard limit of open files (ulimit -Hn; LimitNOFILE= of the ' +
    'unit, of containerd or of Docker; ulimits.nofile with Docker Compose)' +
    (safe < 1 ? '' : `, or start the gateway with --connections ${safe}`)
  );
}
