import type { Condition, KubeObject } from '../../../kube/index.ts';

export interface Taint {
  key: string;
  value?: string;
  effect: string;
  timeAdded?: string;
}

export interface NodeAddress {
  type: string;
  address: string;
}

export interface NodeStatus {
  addresses?: NodeAddress[];
  capacity?: Record<string, string>;
  allocatable?: Record<string, string>;
  conditions?: Condition[];
  daemonEndpoints?: { kubeletEndpoint?: { Port?: number } };
  nodeInfo?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; taints?: Taint[]; providerID?: string; [field: string]: unknown };
  status?: NodeStatus;
}
