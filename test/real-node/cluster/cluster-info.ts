/** What there is to connect to; in `cluster.json` of the cluster's directory, too. */
export interface ClusterInfo {
  directory: string;
  /** For `vc-manager --state-dir`. */
  stateDir: string;
  superKubeconfigFile: string;
  /** Of this machine, where all API servers listen and which pods can reach. */
  address: string;
  /** Of all nodes. */
  podRange: string;
  nodes: {
    name: string;
    address: string;
    /** Of its first process; `nsenter -t PID -a` looks into the node. */
    pid: number;
  }[];
  /** The process that has the nodes as children. */
  keeper: number;
}
