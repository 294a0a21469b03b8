import { ProcessKeeper } from './process-keeper.ts';

// The program of the container `tenants`: its one argument is the path of its socket.
const abort = new AbortController();
process.once('SIGTERM', () => abort.abort());
process.once('SIGINT', () => abort.abort());

await new ProcessKeeper({ socket: process.argv[2] ?? '' }).run(abort.signal);
