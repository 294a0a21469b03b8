import { Generator } from './generator.ts';
import type { Reply, Request } from './protocol.ts';

// The load generator as a process of its own, so that its CPU time can be told from everything else's.
// It ends with the process that started it; Ctrl-C is that one's business.
process.on('SIGINT', () => undefined);
process.on('disconnect', () => process.exit());

const generator = new Generator();
process.on('message', (request: Request) => {
  void generator.handle(request).then(
    (result) => send({ result }),
    (error: unknown) => send({ error: error instanceof Error ? error.message : String(error) }),
  );
});

function send(reply: Reply): void {
  process.send?.(reply);
}
