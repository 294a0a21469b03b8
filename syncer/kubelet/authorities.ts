import { X509Certificate } from 'node:crypto';

/** The public halves of what a tenant's API server proves itself with. PEM. */
export interface ClientAuthorities {
  /** Signs only what the tenant's API server shows to kubelets. */
  readonly kubeletClient: string;
  /** Signs only what it shows to aggregated API servers. */
  readonly frontProxy: string;
}

/** As what an API server comes: to a kubelet, or to an aggregated API. */
export type Purpose = keyof ClientAuthorities;

interface Known {
  readonly tenant: string;
  readonly purpose: Purpose;
  readonly authority: X509Certificate;
  /** The one common name that this authority may vouch for here. */
  readonly commonName: string;
}

const clientUsage = '1.3.6.1.5.5.7.3.2';

/**
 * Who may speak for which tenant. A certificate is checked against the one authority that it names as its
 * issuer, never against a common pool, and it counts for the tenant that this authority belongs to.
 */
export class AuthorityDirectory {
  /** By the authority's subject, which a leaf names as its issuer. It holds the tenant's id: no two are alike. */
  readonly #bySubject = new Map<string, Known>();
  readonly #texts = new Map<string, string>();

  /**
   * Returns whether these replace others, so that what those vouched for has to end. `id`: root of the
   * tenant's names. Throws for an authority that does not bear it.
   */
  set(tenant: string, id: string, authorities: ClientAuthorities): boolean {
    const text = JSON.stringify([id, authorities.kubeletClient, authorities.frontProxy]);
    const before = this.#texts.get(tenant);
    if (before === text) return false;
    const known = [kubeletClient(tenant, id, authorities), frontProxy(tenant, id, authorities)];
    this.delete(tenant);
    for (const each of known) this.#bySubject.set(each.authority.subject, each);
    this.#texts.set(tenant, text);
    return before !== undefined;
  }

  delete(tenant: string): void {
    this.#texts.delete(tenant);
    for (const [subject, known] of this.#bySubject) {
      if (known.tenant === tenant) this.#bySubject.delete(subject);
    }
  }

  /** UID of the tenant whose API server presents this certificate for this purpose at this time, or why it is none. */
  identify(certificate: X509Certificate, purpose: Purpose, nowMs: number): { tenant: string } | string {
    const known = this.#bySubject.get(certificate.issuer);
    if (
      known?.purpose !== purpose ||
      !certificate.checkIssued(known.authority) ||
      !certificate.verify(known.authority.publicKey)
    ) {
      return 'no tenant that is served here has an authority that signed it for this';
    }
    if (certificate.ca) return 'it is that of an authority';
    if (!isValid(certificate, nowMs) || !isValid(known.authority, nowMs))
      return 'it is not valid at this time';
    if (certificate.keyUsage?.includes(clientUsage) !== true) return 'it is not for clients';
    if (commonName(certificate) !== known.commonName) return 'it does not bear the name of the tenant';
    return { tenant: known.tenant };
  }
}

function kubeletClient(tenant: string, id: string, authorities: ClientAuthorities): Known {
  const authority = read(authorities.kubeletClient, `skerry ${id} kubelet-client CA`);
  return { tenant, purpose: 'kubeletClient', authority, commonName: `tenant-${id}` };
}

function frontProxy(tenant: string, id: string, authorities: ClientAuthorities): Known {
  const authority = read(authorities.frontProxy, `skerry ${id} front-proxy CA`);
  return { tenant, purpose: 'frontProxy', authority, commonName: 'front-proxy-client' };
}

/** One that bears the name of another tenant would let whoever may write this tenant's Secret shut that one out. */
function read(pem: string, name: string): X509Certificate {
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
function commonName(certificate: X509Certificate): string | undefined {
  const found = (certificate.toLegacyObject().subject as { CN?: string | string[] } | undefined)?.CN;
  return typeof found === 'string' ? found : undefined;
}
