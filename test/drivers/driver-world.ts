import type { ControlPlanePlan } from '../../vc-manager/control-plane/index.ts';
import type { ControlPlaneDriver } from '../../vc-manager/drivers/index.ts';
import type { ManagerPki } from '../../vc-manager/pki/index.ts';

/** A driver as managers hold it: `close` looks away and lets everything run. */
export type HeldDriver = ControlPlaneDriver & { close?: () => Promise<void> };

/** Where the API server of one control plane listens, and where this machine reaches it. */
export interface ServerAddress {
  bindAddress: string;
  bindPort: number;
  host: string;
  port: number;
}

/** What the conformance suite needs to know of a driver and of the place where it works. */
export interface DriverWorld {
  /** Each one works on the same place, as a manager does that follows on another. */
  makeDriver(): HeldDriver;
  datastore: {
    /** For API servers. */
    endpoint: string;
    ensureTenant(id: string): Promise<unknown>;
    removeTenant(id: string): Promise<unknown>;
  };
  pki: ManagerPki;
  /** The same answer each time for the same control plane. */
  locate(id: string): Promise<ServerAddress>;
  /** Another patch version that the place can run; the same program may stand in for it. */
  otherVersion: string;
  /** What a driver of this kind wants to have in plans besides. */
  complete?(plan: ControlPlanePlan): ControlPlanePlan;
  /** Ends the component's process as a crash does: no driver and no supervisor has asked for it. */
  crash(id: string, component: string): Promise<void>;
  /** What there is of a control plane, by names that a person understands; empty when there is nothing. */
  traces(id: string): Promise<string[]>;
  /** API servers listen on ports of this machine, where others may have taken them. */
  usesPortsOfThisMachine: boolean;
  close(): Promise<void>;
}
