import { StringDecoder } from 'node:string_decoder';
import { type KubeClient, resources } from '../../../kube/index.ts';

export interface PodLogOptions {
  namespace: string;
  pod: string;
  container: string;
  /** Of the container that ran before the present one. */
  previous?: boolean;
  tailLines?: number;
  follow?: boolean;
  /** Each line begins with its time and a space. */
  timestamps?: boolean;
  /** Nothing that is older, in whole seconds. */
  sinceTime?: string;
  signal: AbortSignal;
}

/** How long a followed log may be silent. */
const silenceMs = 0;
const answerMs = 30_000;

/** Lines of one container. Ends with the container, or when aborted; nothing when there is no log to be had. */
export async function* podLog(client: KubeClient, options: PodLogOptions): AsyncGenerator<string> {
  const { namespace, pod, container, previous = false, tailLines, follow = false, signal } = options;
  const { timestamps = false, sinceTime } = options;
  const query = new URLSearchParams({ container });
  if (previous) query.set('previous', 'true');
  if (follow) query.set('follow', 'true');
  if (timestamps) query.set('timestamps', 'true');
  if (sinceTime !== undefined) query.set('sinceTime', sinceTime);
  if (tailLines !== undefined) query.set('tailLines', String(tailLines));
  let body: Awaited<ReturnType<typeof client.connection.stream>>['body'] | undefined;
  try {
    const answer = await client.connection.stream(
      {
        method: 'GET',
        verb: 'get',
        resource: resources.pods.plural,
        path: `/api/v1/namespaces/${namespace}/pods/${pod}/log?${query}`,
        signal,
      },
      follow ? silenceMs : answerMs,
    );
    body = answer.body;
    // A later error has no other listener once the lines are read.
    body.on('error', () => undefined);
    // 400: it has not started, or there was none before it. 404: it is gone.
    if (answer.status !== 200) return;
    const decoder = new StringDecoder('utf8');
    let unfinished = '';
    for await (const chunk of body as AsyncIterable<Buffer>) {
      const lines = (unfinished + decoder.write(chunk)).split('\n');
      unfinished = lines.pop() ?? '';
      for (const line of lines) {
        if (signal.aborted) return;
        yield line;
      }
    }
    if (unfinished !== '') yield unfinished;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    body?.destroy();
  }
}

/** The last lines of what a container said before it ended; none rather than an error. */
export async function lastLinesOf(
  client: KubeClient,
  options: Omit<PodLogOptions, 'follow'>,
): Promise<string[]> {
  const lines: string[] = [];
  try {
    for await (const line of podLog(client, options)) lines.push(line);
  } catch {
    options.signal.throwIfAborted();
  }
  return lines;
}
