import { createCipheriv, createDecipheriv, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';

const sessionSchema = z.strictObject({
  id: z.string(),
  /** Sent with every request that changes something, by the page itself. */
  csrf: z.string(),
  user: z.string(),
  /** Milliseconds since 1970. */
  expiresAt: z.number(),
  /** `namespace/name`: this tenant and nothing else is shown. Absent: an operator. */
  tenant: z.string().optional(),
  /** As whom API servers are asked. */
  as: z.discriminatedUnion('is', [
    /** As this program. Only by a link that this program has printed. */
    z.strictObject({ is: z.literal('program') }),
    z.strictObject({ is: z.literal('token'), token: z.string() }),
    z.strictObject({ is: z.literal('groups'), groups: z.array(z.string()) }),
  ]),
});

export type Session = Readonly<z.infer<typeof sessionSchema>>;

const pendingSchema = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  expiresAt: z.number(),
});

/** What has to be remembered between the way to an OIDC provider and the way back. */
export interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

const pendingMs = 10 * 60_000;
const sessionMs = 12 * 3_600_000;
const linkMs = 15 * 60_000;
/** Of a cookie, that browsers keep. */
const longestCookie = 4_000;
const maxEnded = 10_000;

export class SessionTooLarge extends Error {
  override readonly name = 'SessionTooLarge';
}

/**
 * Sessions live in cookies, sealed with a key: nothing of them is kept here but those that were ended early. With the same
 * key another replica accepts them.
 */
export class Sessions {
  readonly #key: Buffer;
  readonly #now: () => number;
  /** When each of the sessions that were ended would have expired, by id. */
  readonly #ended = new Map<string, number>();
  /** When each link that was printed and not used expires. */
  readonly #links = new Map<string, number>();

  /** `key`: 32 bytes. */
  constructor(key: Uint8Array, now: () => number) {
    this.#key = Buffer.from(key);
    this.#now = now;
  }

  begin(who: Pick<Session, 'user' | 'as' | 'tenant'>): Session {
    return { id: word(), csrf: word(), expiresAt: this.#now() + sessionMs, ...who };
  }

  /** Throws SessionTooLarge for one that browsers would not keep. */
  seal(session: Session): string {
    const text = seal(this.#key, session);
    if (text.length > longestCookie)
      throw new SessionTooLarge('this token is too long to be kept in a cookie: use a shorter one');
    return text;
  }

  /** Undefined for what was not sealed with this key, has expired or was ended. */
  open(text: string): Session | undefined {
    if (text.length > longestCookie) return undefined;
    const { success, data: session } = sessionSchema.safeParse(open(this.#key, text));
    if (!success || session.expiresAt <= this.#now() || this.#ended.has(session.id)) return undefined;
    return session;
  }

  /** What a browser keeps between the way to an OIDC provider and the way back. */
  sealPending(pending: PendingSignIn): string {
    return seal(this.#key, { ...pending, expiresAt: this.#now() + pendingMs });
  }

  /** Undefined for what was not sealed with this key, or too long ago. */
  openPending(text: string): PendingSignIn | undefined {
    const { success, data } = pendingSchema.safeParse(open(this.#key, text));
    return success && data.expiresAt > this.#now() ? data : undefined;
  }

  end({ id, expiresAt }: Session): void {
    const now = this.#now();
    for (const [each, until] of this.#ended)
      if (until <= now || this.#ended.size >= maxEnded) this.#ended.delete(each);
    this.#ended.set(id, expiresAt);
  }

  /** A secret that signs in whoever has it as this program, once. */
  link(): string {
    const link = word();
    this.#links.set(link, this.#now() + linkMs);
    return link;
  }

  /**
   * Uses up a link that was printed here, lately, and was not used yet; undefined: it was not. The function that it
   * returns gives the link back, for one who could not be signed in.
   */
  redeem(link: string): (() => void) | undefined {
    const until = this.#links.get(link);
    this.#links.delete(link);
    if (until === undefined || until <= this.#now()) return undefined;
    return () => this.#links.set(link, until);
  }
}

/** AES-256-GCM, in letters that a cookie may have. */
function seal(key: Buffer, value: object): string {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  const sealed = Buffer.concat([nonce, cipher.update(JSON.stringify(value)), cipher.final()]);
  return Buffer.concat([sealed, cipher.getAuthTag()]).toString('base64url');
}

/** Undefined for what was not sealed with this key. */
function open(key: Buffer, text: string): unknown {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length < 29) return undefined;
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(bytes.subarray(-16));
    return JSON.parse(Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString());
  } catch {
    return undefined;
  }
}

function word(): string {
  return randomBytes(24).toString('base64url');
}

export function isSameSecret(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
