/** What stands in place of a secret. */
export const redacted = '[redacted]';

/** Each finds what has to be kept to itself; a group, if there is one, is what may stay before it. */
const patterns: readonly RegExp[] = [
  // Keys as files and kubeconfigs have them.
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,40}PRIVATE KEY-----/g,
  // "-----BEGIN " in Base64.
  /LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,40000}/g,
  // JSON Web Tokens.
  /eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}/g,
  /AGE-SECRET-KEY-[A-Z0-9-]{20,4000}/g,
  /(\b[Bb]earer )[A-Za-z0-9._~+/=-]{8,8000}/g,
  // Of a URL: what stands between ":" and "@".
  /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@"']{0,200}:)[^\s/@"']{1,400}(?=@)/g,
  // JSON, YAML and flags: the value of what is called like a secret.
  /(["']?\b[A-Za-z0-9_.-]{0,60}(?:[Pp]assword|PASSWORD|[Ss]ecret[_-]?[Kk]ey|SECRET[A-Z_]{0,30}|[Tt]oken|TOKEN|[Cc]lient-key-data|[Aa]uthorization)["']?\s?[:=]\s?["']?)[^\s"',}]{4,8000}/g,
];

/** Without what looks like a key, a token or a password. Line by line or whole. */
export function redact(text: string): string {
  return patterns.reduce(
    (before, pattern) =>
      before.replaceAll(pattern, (_match: string, kept: unknown) =>
        typeof kept === 'string' ? `${kept}${redacted}` : redacted,
      ),
    text,
  );
}
