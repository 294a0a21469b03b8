import { freemem, totalmem } from 'node:os';

/** Of this machine, or of the control group that holds this process, if that has a limit. */
export function machineMemory(): { totalBytes: number; availableBytes: number } {
  const limit = process.constrainedMemory();
  return {
    totalBytes: limit > 0 ? Math.min(limit, totalmem()) : totalmem(),
    availableBytes: Math.min(process.availableMemory(), freemem()),
  };
}
