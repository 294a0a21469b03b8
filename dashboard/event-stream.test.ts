import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { EventStream, UnreadStream } from './event-stream.ts';

const large = { text: 'x'.repeat(10_000) };
const never = new AbortController().signal;

describe('a stream of events', () => {
  it('sends nothing more until the page has read what it was sent', async () => {
    const page = new PassThrough({ highWaterMark: 1_000 });
    const stream = new EventStream(page, never, 60_000);
    let isSent = false;
    const sent = stream.event('tenants', large, 7).then(() => {
      isSent = true;
    });
    await new Promise(setImmediate);
    expect(isSent).toBe(false);
    let text = '';
    page.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    await sent;
    expect(text).toMatch(/^id: 7\nevent: tenants\ndata: \{"text":"x+"\}\n\n$/);
  });

  it('gives up a page that reads nothing', async () => {
    const stream = new EventStream(new PassThrough({ highWaterMark: 1_000 }), never, 1);
    await expect(stream.event('tenants', large)).rejects.toThrow(UnreadStream);
  });

  it('ends with the connection', async () => {
    const gone = new AbortController();
    const stream = new EventStream(new PassThrough({ highWaterMark: 1_000 }), gone.signal, 60_000);
    const sent = stream.event('tenants', large);
    gone.abort(new Error('the browser has gone'));
    await expect(sent).rejects.toThrow('the browser has gone');
  });
});
