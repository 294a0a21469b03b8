import { loadKubeconfig, withClient } from '../../kube/index.ts';
import { SimulatedProvisioner } from './simulated-storage.ts';

// The program of the component `simulated-storage`: its one argument is a kubeconfig.
const abort = new AbortController();
process.once('SIGTERM', () => abort.abort());
process.once('SIGINT', () => abort.abort());

const superCluster = await loadKubeconfig(process.argv[2]);
await withClient({ ...superCluster, userAgent: 'skerry-simulated-storage' }, (client) =>
  new SimulatedProvisioner({ client, onProblem: (error) => console.error(error) }).run(abort.signal),
);
