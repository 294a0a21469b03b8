import { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../kube/index.ts';
import type { KubeletTenant } from './find-pod.ts';
import { Refusal } from './refusal.ts';

/**
 * The certificates of the authorities that sign the client certificates of a tenant's API server. PEM, several in a row while
 * they are renewed.
 */
export interface ClientAuthorities {
  /** Signs only the certificate that the tenant's API server presents to kubelets. */
  readonly kubeletClient: string;
  /** Signs only the certificate that it presents to aggregated API servers. */
  readonly frontProxy: string;
}

/** What an API server connects for: a kubelet, or an aggregated API. */
export type Purpose = keyof ClientAuthorities;

interface Known {
  readonly tenant: string;
  readonly purpose: Purpose;
  readonly authority: X509Certificate;
  /** The one common name that this authority may vouch for here. */
  readonly commonName: string;
  /** Certificates that it has signed, each with why it is none for here whatever the time; undefined: it is one. */
  readonly signed: WeakMap<X509Certificate, string | undefined>;
}

const clientUsage = '1.3.6.1.5.5.7.3.2';

/**
 * The authorities of all tenants. A certificate is verified against the one authority that it names as its issuer,
 * never against a common pool, and identifies the tenant that this authority belongs to.
 */
export class AuthorityDirectory {
  /**
   * By the authority's subject, which a leaf names as its issuer. It holds the tenant's id: those of one subject are one
   * tenant's, the old and the new one while they are renewed.
   */
  readonly #bySubject = new Map<string, readonly Known[]>();
  readonly #texts = new Map<string, string>();

  /**
   * Returns whether others are not among these any more, whose connections then have to be closed. `id`: root of the tenant's names.
   * Throws for an authority without that id in its name.
   */
  set(tenant: string, id: string, authorities: ClientAuthorities): boolean {
    const text = JSON.stringify([id, authorities.kubeletClient, authorities.frontProxy]);
    const before = this.#texts.get(tenant);
    if (before === text) return false;
    const known = [
      knownBy(
        tenant,
        'kubeletClient',
        read(authorities.kubeletClient, `skerry ${id} kubelet-client CA`),
        `tenant-${id}`,
      ),
      knownBy(
        tenant,
        'frontProxy',
        read(authorities.frontProxy, `skerry ${id} front-proxy CA`),
        'front-proxy-client',
      ),
    ];
    const kept = new Set(known.flat().map(({ authority }) => authority.fingerprint256));
    const earlier = [...this.#bySubject.values()].flat().filter((each) => each.tenant === tenant);
    this.delete(tenant);
    for (const each of known) this.#bySubject.set(each[0]?.authority.subject ?? '', each);
    this.#texts.set(tenant, text);
    return before !== undefined && !earlier.every(({ authority }) => kept.has(authority.fingerprint256));
  }

  delete(tenant: string): void {
    this.#texts.delete(tenant);
    for (const [subject, [known]] of this.#bySubject) {
      if (known?.tenant === tenant) this.#bySubject.delete(subject);
    }
  }

  /** UID of the tenant whose API server presents this certificate for this purpose at this time, or why it is none. */
  identify(certificate: X509Certificate, purpose: Purpose, nowMs: number): { tenant: string } | string {
    const known = this.#signerOf(certificate);
    if (known?.purpose !== purpose) {
      return 'no tenant that is served here has an authority that signed it for this';
    }
    const problem = known.signed.get(certificate);
    if (problem !== undefined) return problem;
    if (!isValid(certificate, nowMs) || !isValid(known.authority, nowMs))
      return 'it is not valid at this time';
    return { tenant: known.tenant };
  }

  /** What this certificate is for, as its authority says. */
  purposeOf(certificate: X509Certificate): Purpose | undefined {
    return this.#signerOf(certificate)?.purpose;
  }

  /** Signatures are verified once for each authority: an API server asks many times over one connection. */
  #signerOf(certificate: X509Certificate): Known | undefined {
    return this.#bySubject.get(certificate.issuer)?.find((known) => {
      const { authority, signed } = known;
      if (signed.has(certificate)) return true;
      if (!certificate.checkIssued(authority) || !certificate.verify(authority.publicKey)) return false;
      signed.set(certificate, problemOf(certificate, known));
      return true;
    });
  }
}

function problemOf(certificate: X509Certificate, known: Pick<Known, 'commonName'>): string | undefined {
  if (certificate.ca) return 'it is that of an authority';
  if (certificate.keyUsage?.includes(clientUsage) !== true) return 'it is not for clients';
  if (commonNameOf(certificate) !== known.commonName) return 'it does not bear the name of the tenant';
  return undefined;
}

function knownBy(
  tenant: string,
  purpose: Purpose,
  authorities: readonly X509Certificate[],
  commonName: string,
): Known[] {
  return authorities.map((authority) => ({ tenant, purpose, authority, commonName, signed: new WeakMap() }));
}

/** An authority in the name of another tenant would let a user who may write this tenant's Secret lock that one out. */
function read(pem: string, name: string): X509Certificate[] {
  const parts = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [pem];
  return parts.map((part) => readOne(part, name));
}

function readOne(pem: string, name: string): X509Certificate {
  const certificate = new X509Certificate(pem);
  if (certificate.subject !== `CN=${name}`) {
    throw new Error(`an authority is called "${certificate.subject}" and has to be called "CN=${name}"`);
  }
  if (!certificate.ca) throw new Error(`"CN=${name}" is not the certificate of an authority`);
  return certificate;
}

function isValid(certificate: X509Certificate, nowMs: number): boolean {
  return certificate.validFromDate.getTime() <= nowMs && nowMs < certificate.validToDate.getTime();
}

/** Undefined unless there is exactly one. */
function commonNameOf(certificate: X509Certificate): string | undefined {
  const found = (certificate.toLegacyObject().subject as { CN?: string | string[] } | undefined)?.CN;
  return typeof found === 'string' ? found : undefined;
}

interface KubeletTenantsOptions {
  clock: Clock;
  /** Connections that one tenant may have at once. */
  socketsPerTenant: number;
}

/** A tenant whose API server has been authenticated. */
export interface Client {
  readonly uid: string;
  readonly tenant: KubeletTenant;
}

/** The tenants that are served, the authorities that tell them apart, and the number of their connections. */
export class KubeletTenants {
  readonly sockets: TenantSockets;
  readonly #clock: Clock;
  readonly #limit: number;
  readonly #authorities = new AuthorityDirectory();
  readonly #tenants = new Map<string, KubeletTenant>();
  readonly #certificates = new WeakMap<TLSSocket, X509Certificate>();

  constructor({ clock, socketsPerTenant }: KubeletTenantsOptions) {
    this.#clock = clock;
    this.#limit = socketsPerTenant;
    this.sockets = new TenantSockets(socketsPerTenant);
  }

  /**
   * Starts to serve this tenant. Call it again when something of it has changed: with other authorities than before all
   * its connections are closed. Throws for authorities that are not its own; the tenant is then not served.
   */
  serve(uid: string, id: string, authorities: ClientAuthorities, tenant: KubeletTenant): void {
    try {
      if (this.#authorities.set(uid, id, authorities)) this.sockets.cut(uid);
    } catch (error) {
      this.leave(uid);
      throw error;
    }
    this.#tenants.set(uid, tenant);
  }

  /** By UID; undefined for one that is not served here. */
  get(uid: string): KubeletTenant | undefined {
    return this.#tenants.get(uid);
  }

  /** Stops to serve this tenant, and closes all its connections. */
  leave(uid: string): void {
    this.#authorities.delete(uid);
    this.#tenants.delete(uid);
    this.sockets.cut(uid);
  }

  /** The tenant whose API server this is at present. Throws Refusal. */
  authenticate(socket: TLSSocket, purpose: Purpose): Client {
    const found = this.#identify(socket, purpose);
    if (typeof found === 'string')
      throw new Refusal(401, `the client certificate is not that of a tenant's API server: ${found}`);
    if (!this.sockets.admit(found.uid, socket))
      throw new Refusal(
        429,
        `this cluster has ${this.#limit} connections to its pods open already (logs, exec, attach, port-forward): end some of them`,
      );
    return found;
  }

  /** Counts a connection for its tenant, if that is known and below its limit. */
  greet(socket: TLSSocket): boolean {
    const certificate = this.#certificateOf(socket);
    const purpose = certificate && this.#authorities.purposeOf(certificate);
    const found = purpose && this.#identify(socket, purpose);
    return typeof found === 'object' && this.sockets.admit(found.uid, socket);
  }

  #identify(socket: TLSSocket, purpose: Purpose): Client | string {
    const certificate = this.#certificateOf(socket);
    if (certificate === undefined) return 'there is none';
    const found = this.#authorities.identify(certificate, purpose, this.#clock.now());
    if (typeof found === 'string') return found;
    const tenant = this.#tenants.get(found.tenant);
    return tenant === undefined ? 'the tenant is not served here' : { uid: found.tenant, tenant };
  }

  /** Read once: a connection keeps the certificate of its handshake. */
  #certificateOf(socket: TLSSocket): X509Certificate | undefined {
    const known = this.#certificates.get(socket);
    if (known !== undefined) return known;
    const certificate = socket.getPeerX509Certificate();
    if (certificate !== undefined) this.#certificates.set(socket, certificate);
    return certificate;
  }
}

interface Held {
  readonly tenant: string;
  /** Requests that are not answered yet; an upgraded connection has one for ever. */
  busy: number;
  /** Of their heads. */
  headBytes: number;
}

/**
 * Heads of open requests stay in memory, with copies of them some four times as large. A tenant has a few of the longest
 * that are read, or a thousand usual ones.
 */
const maxHeadBytes = 8 << 20;
/** Of all tenants together. Over it, those with more than a small part get no more. */
const maxHeadBytesOfAll = 4 * maxHeadBytes;
const smallHeadBytes = 1 << 20;

/** Which connections are whose, so that no tenant has more than its share and all of one can be cut. */
class TenantSockets {
  readonly #limit: number;
  readonly #held = new Map<Socket, Held>();
  readonly #byTenant = new Map<string, Set<Socket>>();
  /** Of open requests, by tenant. */
  readonly #headBytes = new Map<string, number>();

  /** `limit`: connections that one tenant may have at once. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Takes a connection as this tenant's; it leaves by itself when it closes. False when the tenant has too
   * many: of those that only wait for their next request one would have been closed for it.
   */
  admit(tenant: string, socket: Socket): boolean {
    const before = this.#held.get(socket);
    if (before !== undefined) return before.tenant === tenant;
    const sockets = this.#byTenant.get(tenant) ?? new Set<Socket>();
    if (sockets.size >= this.#limit) {
      const idle = [...sockets].find((each) => this.#held.get(each)?.busy === 0);
      if (idle === undefined) return false;
      this.#forget(idle);
      idle.destroy();
    }
    this.#byTenant.set(tenant, sockets.add(socket));
    this.#held.set(socket, { tenant, busy: 0, headBytes: 0 });
    socket.once('close', () => this.#forget(socket));
    return true;
  }

  has(socket: Socket): boolean {
    return this.#held.has(socket);
  }

  /** The number of connections of a tenant. */
  of(tenant: string): number {
    return this.#byTenant.get(tenant)?.size ?? 0;
  }

  /** A request has come. Throws Refusal when the tenant has too long ones open already. */
  begin(socket: Socket, headBytes: number): void {
    const held = this.#held.get(socket);
    if (held === undefined) return;
    const own = (this.#headBytes.get(held.tenant) ?? 0) + headBytes;
    const all = [...this.#headBytes.values()].reduce((sum, each) => sum + each, headBytes);
    if (own > maxHeadBytes || (own > smallHeadBytes && all > maxHeadBytesOfAll))
      throw new Refusal(
        429,
        'the open requests of this cluster to its pods (logs, exec, attach, port-forward) are too long together: end some of them',
      );
    held.busy += 1;
    held.headBytes += headBytes;
    this.#headBytes.set(held.tenant, own);
  }

  /** It is answered. The next one may have come before the last of the answer has gone out. */
  end(socket: Socket, headBytes: number): void {
    const held = this.#held.get(socket);
    if (held === undefined) return;
    held.busy -= 1;
    this.#releaseHeads(held, headBytes);
  }

  /** Ends all connections of a tenant at once. */
  cut(tenant: string): void {
    for (const socket of [...(this.#byTenant.get(tenant) ?? [])]) socket.destroy();
  }

  #forget(socket: Socket): void {
    const held = this.#held.get(socket);
    if (held === undefined) return;
    this.#held.delete(socket);
    this.#releaseHeads(held, held.headBytes);
    const sockets = this.#byTenant.get(held.tenant);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#byTenant.delete(held.tenant);
  }

  #releaseHeads(held: Held, bytes: number): void {
    const left = (this.#headBytes.get(held.tenant) ?? 0) - bytes;
    held.headBytes -= bytes;
    if (left > 0) this.#headBytes.set(held.tenant, left);
    else this.#headBytes.delete(held.tenant);
  }
}
