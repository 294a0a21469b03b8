import { join } from 'node:path';
import type { KeyPair } from './issue.ts';
import { type PkiData, pairOf } from './pki-set.ts';

/** A certificate and its key, and where they lie. */
export interface PairFiles extends KeyPair {
  readonly certFile: string;
  readonly keyFile: string;
}

export function pairFiles(directory: string, data: PkiData, name: string): PairFiles {
  return {
    ...pairOf(data, name),
    certFile: join(directory, `${name}.crt`),
    keyFile: join(directory, `${name}.key`),
  };
}
