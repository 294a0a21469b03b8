import { Connection, KubeClient, loadKubeconfig } from '../../kube/index.ts';
import { SimulatedProvisioner } from './simulated-storage.ts';

// The program of the component `simulated-storage`: its one argument is a kubeconfig.
const abort = new AbortController();
process.once('SIGTERM', () => abort.abort());
process.once('SIGINT', () => abort.abort());

const connection = new Connection({
  ...(await loadKubeconfig(process.argv[2])),
  userAgent: 'skerry-simulated-storage',
});
const provisioner = new SimulatedProvisioner({
  client: new KubeClient(connection),
  onProblem: (error) => console.error(error),
});
await provisioner.run(abort.signal);
await connection.close();
