import type { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../kube/index.ts';
import { AuthorityDirectory, type ClientAuthorities, type Purpose } from './authorities.ts';
import type { KubeletTenant } from './find-pod.ts';
import { tooMany, unknownClient } from './refusal.ts';
import { TenantSockets } from './tenant-sockets.ts';

export interface KubeletTenantsOptions {
  clock: Clock;
  /** Connections that one tenant may have at once. */
  socketsPerTenant: number;
}

/** A tenant as its API server has shown to be it. */
export interface Client {
  readonly uid: string;
  readonly tenant: KubeletTenant;
}

/** The tenants whose API servers may come, how they are told apart, and the connections that they have. */
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
   * From now on this tenant is served; to be called again when something of it changes. With other
   * authorities than before all its connections are cut. Throws for authorities that are not its own, and
   * then it is not served.
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

  /** No more of this tenant, and an end to all that it has open. */
  leave(uid: string): void {
    this.#authorities.delete(uid);
    this.#tenants.delete(uid);
    this.sockets.cut(uid);
  }

  /** Whose API server this is, as of now. Throws Refusal. */
  authenticate(socket: TLSSocket, purpose: Purpose): Client {
    const found = this.#identify(socket, purpose);
    if (typeof found === 'string') throw unknownClient(found);
    if (!this.sockets.admit(found.uid, socket)) throw tooMany(this.#limit);
    return found;
  }

  /** Counts a connection as its tenant's, if it has one and it may have one more. */
  greet(socket: TLSSocket): boolean {
    for (const purpose of ['kubeletClient', 'frontProxy'] as const) {
      const found = this.#identify(socket, purpose);
      if (typeof found !== 'string') return this.sockets.admit(found.uid, socket);
    }
    return false;
  }

  #identify(socket: TLSSocket, purpose: Purpose): Client | string {
    const certificate = this.#certificateOf(socket);
    if (certificate === undefined) return 'there is none';
    const found = this.#authorities.identify(certificate, purpose, this.#clock.now());
    if (typeof found === 'string') return found;
    const tenant = this.#tenants.get(found.tenant);
    return tenant === undefined ? 'the tenant is not served here' : { uid: found.tenant, tenant };
  }

  /** Read once: the connection keeps the one that its handshake was made with. */
  #certificateOf(socket: TLSSocket): X509Certificate | undefined {
    const known = this.#certificates.get(socket);
    if (known !== undefined) return known;
    const certificate = socket.getPeerX509Certificate();
    if (certificate !== undefined) this.#certificates.set(socket, certificate);
    return certificate;
  }
}
