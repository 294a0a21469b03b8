export { ComposeDriver } from './compose/compose-driver.ts';
export type {
  ComponentListener,
  ControlPlaneDriver,
  ControlPlaneObservation,
  EnsureOptions,
  LocateOptions,
  Location,
  StopOptions,
} from './driver.ts';
export { DriverError } from './errors.ts';
export { imageOf } from './images.ts';
export { KubernetesDriver, type KubernetesDriverOptions } from './kubernetes/kubernetes-driver.ts';
export { Probe } from './probe.ts';
export { ProcessDriver } from './process/process-driver.ts';
