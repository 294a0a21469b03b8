import type { KubeObject } from './types.ts';

export interface Secret extends KubeObject {
  type?: string;
  /** In Base64. */
  data?: Record<string, string>;
}

export function encodeSecretData(data: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
}

export function decodeSecretData({ data = {} }: Secret): Record<string, string> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}
