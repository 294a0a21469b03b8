export type {
  ComponentListener,
  ControlPlaneDriver,
  ControlPlaneObservation,
  EnsureOptions,
  StopOptions,
} from './driver.ts';
export { DriverError } from './errors.ts';
export { ProcessDriver } from './process/process-driver.ts';
