import { describe, expect, it } from 'vitest';
import {
  ApiError,
  ConnectionError,
  type KubeClient,
  type ListOptions,
  type ObjectRef,
} from '../../../kube/index.ts';
import { type RewritePosition, rewriteStart } from '../../pki/index.ts';
import { rewriteSecrets } from './rewrite-secrets.ts';

/** Names in pages; a token is the index of the first one of a page. Each patch takes `patchMs` of a clock of its own. */
class FakeTenant {
  names: string[];
  readonly patched: string[] = [];
  refused = new Map<string, Error>();
  pageSize = 3;
  patchMs = 0;
  nowMs = 0;
  tokenOf = (start: number): string => `from-${start}`;
  oldToken: string | undefined;
  /** The token is forgotten in the middle of its page. */
  isForgottenLate = false;

  constructor(names: string[]) {
    this.names = names;
  }

  get client(): KubeClient {
    const list = async (_: unknown, options: ListOptions): Promise<unknown> => {
      const token = options.continue;
      if (this.isForgottenLate) options.onPage?.([]);
      if (token !== undefined && token === this.oldToken)
        throw new ApiError(410, { metadata: { continue: `again-${token}` } }, 'list');
      const start = Number(token?.match(/\d+$/)?.[0] ?? 0);
      const page = this.names.slice(start, start + this.pageSize);
      const next =
        start + this.pageSize < this.names.length ? this.tokenOf(start + this.pageSize) : undefined;
      return {
        items: page.map((key) => ({ metadata: { namespace: key.split('/')[0], name: key.split('/')[1] } })),
        metadata: { continue: next },
      };
    };
    const patch = async (_: unknown, { namespace, name }: ObjectRef): Promise<unknown> => {
      this.nowMs += this.patchMs;
      const key = `${namespace}/${name}`;
      const error = this.refused.get(key);
      if (error !== undefined) throw error;
      this.patched.push(key);
      return {};
    };
    return { list, patch } as unknown as KubeClient;
  }

  async rewrite(position: RewritePosition = rewriteStart): Promise<RewritePosition | undefined> {
    // As it comes back from where it is stored.
    const stored = JSON.parse(JSON.stringify(position)) as RewritePosition;
    const clock = { monotonic: () => this.nowMs };
    return rewriteSecrets(this.client, stored, { clock, signal: new AbortController().signal });
  }

  async toTheEnd(): Promise<number> {
    let position: RewritePosition | undefined = rewriteStart;
    for (let slices = 1; slices < 1_000; slices++) {
      position = await this.rewrite(position);
      if (position === undefined) return slices;
    }
    throw new Error('no end');
  }
}

const names = Array.from({ length: 20 }, (_, index) => `ns/s-${String(index).padStart(2, '0')}`);
const forbidden = new ApiError(403, { message: 'denied by a webhook' }, 'patch secret');

describe('rewriting Secrets', () => {
  it('reaches each of them, page by page', async () => {
    const tenant = new FakeTenant(names);
    expect(await tenant.toTheEnd()).toBe(1);
    expect(tenant.patched).toEqual(names);
  });

  it.each([1_000, 4_000, 20_000])(
    'goes on where a slice of time has ended, with %d ms for each',
    async (patchMs) => {
      const tenant = new FakeTenant(names);
      tenant.patchMs = patchMs;
      expect(await tenant.toTheEnd()).toBeGreaterThan(1);
      expect(tenant.patched).toEqual(names);
    },
  );

  it('leaves none out when others come and go between two slices', async () => {
    const tenant = new FakeTenant(names);
    tenant.patchMs = 16_000;
    tenant.pageSize = 30;
    const first = await tenant.rewrite();
    expect(first).toMatchObject({ done: tenant.patched.length });
    const left = names.filter((name) => !tenant.patched.includes(name));
    tenant.names = ['ns/a', ...names.filter((name) => name !== 'ns/s-00')];
    for (let at = first; at !== undefined; at = await tenant.rewrite(at));
    expect(tenant.patched.slice(-left.length)).toEqual(left);
  });

  it('goes on with the token that the answer to a token too old carries', async () => {
    const tenant = new FakeTenant(names);
    tenant.oldToken = 'from-6';
    await tenant.toTheEnd();
    expect(tenant.patched).toEqual(names);
  });

  it('leaves nothing of a page out whose token is forgotten in the middle of it', async () => {
    const tenant = new FakeTenant(names);
    tenant.oldToken = 'from-6';
    tenant.isForgottenLate = true;
    await expect(tenant.rewrite()).rejects.toMatchObject({ code: 410 });
  });

  it('names what refuses it now, not what did before', async () => {
    const tenant = new FakeTenant(names);
    tenant.refused.set('ns/s-04', forbidden).set('ns/s-05', forbidden);
    const first = await tenant.rewrite();
    expect(first?.why).toContain('ns/s-04');
    tenant.refused.delete('ns/s-04');
    expect((await tenant.rewrite(first))?.why).toContain('ns/s-05');
  });

  it('tries again only what was refused, and says what that is', async () => {
    const tenant = new FakeTenant(names);
    tenant.refused.set('ns/s-04', forbidden);
    const left = await tenant.rewrite();
    expect(left).toMatchObject({
      blockedBy: 1,
      retries: ['ns/s-04'],
      why: expect.stringContaining('by a webhook'),
    });
    expect(tenant.patched).toHaveLength(19);
    expect(await tenant.rewrite(left)).toMatchObject({ blockedBy: 1, retries: ['ns/s-04'] });
    tenant.refused.clear();
    expect(await tenant.rewrite(left)).toBeUndefined();
    expect(tenant.patched).toHaveLength(20);
  });

  it('remembers no more than a hundred names, and begins anew with more', async () => {
    const many = Array.from({ length: 150 }, (_, index) => `ns/s-${1000 + index}`);
    const tenant = new FakeTenant(many);
    for (const name of many) tenant.refused.set(name, forbidden);
    const left = await tenant.rewrite();
    expect(left).toMatchObject({ blockedBy: 150, refused: [], refusals: 0 });
    expect(left?.retries).toBeUndefined();
    tenant.refused.clear();
    expect(await tenant.rewrite(left)).toBeUndefined();
    expect(tenant.patched).toEqual(many);
  });

  it('passes over what is gone, and ends when the server does not answer', async () => {
    const tenant = new FakeTenant(names);
    tenant.refused.set('ns/s-04', new ApiError(404, { reason: 'NotFound' }, 'patch'));
    await tenant.toTheEnd();
    expect(tenant.patched).toHaveLength(19);
    tenant.refused.set('ns/s-04', new ConnectionError('https://t', 'ECONNRESET', new Error('reset')));
    await expect(tenant.rewrite()).rejects.toThrow(ConnectionError);
  });

  it('ends with a server whose pages have no end, and keeps no token of any length', async () => {
    const tenant = new FakeTenant([]);
    tenant.names = { length: Number.POSITIVE_INFINITY, slice: () => [] } as unknown as string[];
    await expect(tenant.toTheEnd()).rejects.toThrow('no end');
    tenant.tokenOf = () => 'x'.repeat(5_000);
    await expect(tenant.rewrite()).rejects.toThrow('too long');
  });
});
