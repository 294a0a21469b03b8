import { hash } from 'node:crypto';
import type { TenantInfo } from '../context.ts';

const maxLength = 63;
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const hashCharacters = 16;

/** Matches whatever may be the name of a super namespace; the shape alone proves nothing. */
export const superNamespaceShape = /(?<![-a-zA-Z0-9])[a-z0-9][-a-z0-9]{0,45}-[a-z2-7]{16}(?![-a-z0-9])/g;

/**
 * The super namespace of a tenant's namespace: a readable beginning, cut to fit, and a hash that alone
 * makes it unique. The readable part of two tenants may be equal (`a`/`b-c` and `a-b`/`c`), the hash is not.
 */
export function superNamespaceName(
  tenant: Pick<TenantInfo, 'id' | 'namespace' | 'name'>,
  tenantNamespace: string,
): string {
  let names = known.get(tenant);
  if (names === undefined || names.size >= maxKnown) {
    names = new Map();
    known.set(tenant, names);
  }
  let name = names.get(tenantNamespace);
  if (name === undefined) {
    const readable = (readablePrefix(tenant) + tenantNamespace)
      .slice(0, maxLength - hashCharacters - 1)
      .replace(/-+$/, '');
    name = `${readable}-${shortHash(`${tenant.id}\0${tenantNamespace}`)}`;
    names.set(tenantNamespace, name);
  }
  return name;
}

/** No state but a memory of what is a function of its arguments: asked for at every look at a pod. */
const known = new WeakMap<object, Map<string, string>>();
const maxKnown = 5_000;

/** What the names of this tenant's super namespaces begin with, unless they were cut. */
export function readablePrefix(tenant: Pick<TenantInfo, 'namespace' | 'name'>): string {
  return `${tenant.namespace}-${tenant.name}-`.replaceAll('.', '-');
}

/** The tenant namespace that the readable part names; right only if `superNamespaceName` leads back. */
export function readableNamespace(superNamespace: string, prefix: string): string {
  return superNamespace.slice(prefix.length, -hashCharacters - 1);
}

/** 80 bits of SHA-256 in base 32. */
function shortHash(text: string): string {
  let bits = BigInt(`0x${hash('sha256', text, 'hex').slice(0, (hashCharacters * 5) / 4)}`);
  let result = '';
  for (let i = 0; i < hashCharacters; i++) {
    result = alphabet.charAt(Number(bits & 31n)) + result;
    bits >>= 5n;
  }
  return result;
}

/** What Skerry calls a copy of a ConfigMap or Secret that the tenant made after a pod that refers to it (`late-references`). */
export const lateNamePrefix = 'skerry-late-';

/** The ConfigMap with which every namespace is born, on either side, with the CA of its own cluster in it. */
export const rootCaName = 'kube-root-ca.crt';
/** What the tenant's `kube-root-ca.crt` is called in the super cluster, where that name is taken. */
export const superRootCaName = 'tenant-kube-root-ca.crt';
