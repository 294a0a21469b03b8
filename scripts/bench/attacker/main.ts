import { setPriority } from 'node:os';
import { type ConnectionOptions, messageOf, withClient } from '../../../kube/index.ts';
import { attacks, prepared } from './attacks.ts';

export interface AttackRequest {
  readonly connection: ConnectionOptions;
  readonly namespace: string;
  /** A name of `attacks`. */
  readonly attack: string;
}

/** `ready`: what has to be there before is there, and the flood begins. */
export type AttackReply = 'ready' | { readonly error: string };

// The attacker's machine. It is not the one that is attacked, so it takes only what processors have left.
setPriority(19);
process.on('SIGINT', () => undefined);
const ending = new AbortController();
process.once('disconnect', () => ending.abort(new Error('the flood is over')));

process.once('message', (request: AttackRequest) => {
  void attack(request).catch((error: unknown) => {
    if (!ending.signal.aborted) process.send?.({ error: messageOf(error) });
  });
});

async function attack({ connection, namespace, attack: name }: AttackRequest): Promise<void> {
  await withClient({ ...connection, userAgent: 'skerry-bench' }, async (client) => {
    await prepared[name]?.(client, namespace, ending.signal);
    process.send?.('ready');
    await attacks[name]?.(client, namespace, ending.signal);
  });
}
