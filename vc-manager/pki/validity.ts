import type { X509Certificate } from 'node:crypto';

const backdatedMs = 5 * 60_000;

/** Certificates start five minutes in the past, so that a machine whose clock is a little behind accepts them. */
export function issuedNotBefore(now: Date): Date {
  return wholeSecond(now.getTime() - backdatedMs);
}

/** X.509 knows no fractions of a second. */
export function wholeSecond(ms: number): Date {
  return new Date(Math.floor(ms / 1000) * 1000);
}

/** When two thirds of a certificate's life are over: it is renewed from then on. */
export function renewalTime(certificate: X509Certificate): Date {
  const notBefore = certificate.validFromDate.getTime();
  const notAfter = certificate.validToDate.getTime();
  return wholeSecond(notBefore + ((notAfter - notBefore) * 2) / 3);
}
