import { randomBytes, randomUUID } from 'node:crypto';
import { labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';

/** What tells the objects of one tenant in the super cluster from those of another. */
export interface TenantIdentity {
  name: string;
  /** Of its VirtualCluster. */
  uid: string;
  id: string;
  serviceCIDR: string;
  /** Of its API server, and at the gateway. */
  ports: readonly [apiServer: number, gateway: number];
}

interface CopyOptions {
  model: TenantIdentity;
  /** Of the model. */
  superNamespaces: readonly string[];
  /** UIDs that both have in common. */
  shared: readonly string[];
}

const uuid = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;
const address = /\b(?:\d{1,3}\.){3}\d{1,3}\b/g;
const bucket = new RegExp(`("${labelKeys.bucket.replaceAll('.', '\\.')}":")\\d+"`, 'g');
const bucketCount = 64;
const hashLength = 16;

/**
 * Makes objects of one tenant into those of another, as new ones: no two have the same name, UID, address or port. Hashes
 * of namespaces and the bucket are any: nobody computes them for a tenant that is not served.
 */
export function tenantCopy(
  { model, superNamespaces, shared }: CopyOptions,
  copy: TenantIdentity,
): <T extends KubeObject>(object: T) => T {
  const uids = new Map([[model.uid, copy.uid], ...shared.map((uid): [string, string] => [uid, uid])]);
  const namespaces = new Map(
    superNamespaces.map((name) => [
      name,
      name.slice(0, -hashLength).replace(`-${model.name}-`, `-${copy.name}-`) + randomHash(),
    ]),
  );
  const ports = new Map(model.ports.map((port, index) => [String(port), String(copy.ports[index])]));
  const anyPort = new RegExp(`\\b(?:${[...ports.keys()].join('|')})\\b`, 'g');
  const move = addressMover(model.serviceCIDR, copy.serviceCIDR);
  const ownBucket = Number.parseInt(copy.uid.slice(0, 8), 16) % bucketCount;
  const rewrite = (text: string): string => {
    let rewritten = text;
    for (const [from, to] of namespaces) rewritten = rewritten.replaceAll(from, to);
    return rewritten
      .replace(uuid, (uid) => {
        const other = uids.get(uid) ?? randomUUID();
        uids.set(uid, other);
        return other;
      })
      .replaceAll(model.id, copy.id)
      .replaceAll(model.name, copy.name)
      .replace(address, move)
      .replace(anyPort, (port) => ports.get(port) ?? port)
      .replace(bucket, `$1${ownBucket}"`);
  };
  return (object) => {
    const { uid, resourceVersion, creationTimestamp, generation, managedFields, ...metadata } =
      object.metadata;
    return JSON.parse(rewrite(JSON.stringify({ ...object, metadata })));
  };
}

/** Addresses of one range as those of another of the same size; others stay. */
function addressMover(from: string, to: string): (address: string) => string {
  const [first = '', length] = from.split('/');
  const start = numberOf(first);
  const end = start + 2 ** (32 - Number(length));
  const distance = numberOf(to.split('/')[0] ?? '') - start;
  return (text) => {
    const number = numberOf(text);
    return number >= start && number < end ? textOf(number + distance) : text;
  };
}

function numberOf(text: string): number {
  return text.split('.').reduce((number, part) => number * 256 + Number(part), 0);
}

function textOf(number: number): string {
  return [24, 16, 8, 0].map((bits) => Math.floor(number / 2 ** bits) % 256).join('.');
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

function randomHash(): string {
  return Array.from(randomBytes(hashLength), (byte) => alphabet[byte % alphabet.length]).join('');
}
