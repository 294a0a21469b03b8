import type { ComponentPlan } from '../control-plane/index.ts';
import { etcdServerName, type ManagerPki } from '../pki/index.ts';
import { etcdComponent } from './etcd-component.ts';
import type { StackPorts } from './stack-ports.ts';

export interface DatastorePlanOptions {
  etcdVersion: string;
  pki: ManagerPki;
  ports: StackPorts;
  /** For tests: faster, and loses data when the machine crashes. */
  unsafeNoFsync?: boolean;
}

/** The tenants' etcd. */
export function datastorePlan(options: DatastorePlanOptions): ComponentPlan[] {
  const { pki, ports } = options;
  return [
    etcdComponent({
      name: 'datastore',
      version: options.etcdVersion,
      ports: {
        client: ports['datastore-client'],
        peer: ports['datastore-peer'],
        metrics: ports['datastore-metrics'],
      },
      caPem: pki.etcdCa.certPem,
      server: pki.etcdServer,
      serverName: etcdServerName,
      ...(options.unsafeNoFsync === undefined ? {} : { unsafeNoFsync: options.unsafeNoFsync }),
    }),
  ];
}
