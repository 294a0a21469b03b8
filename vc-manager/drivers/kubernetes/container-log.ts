import type { KubeClient } from '../../../kube/index.ts';
import { podLog } from './pod-log.ts';

/** A container of a pod. */
export interface Place {
  client: KubeClient;
  namespace: string;
  pod: string;
  container: string;
}

const stamped = /^(\d{4}-\d{2}-\d{2}T\S+) (.*)$/s;

/**
 * The log of the container of one pod, which can be read on from where it was left. Runs follow each other in it: which
 * of them a kubelet shows is not known, as it tells of a restart later, but times only grow.
 */
export class ContainerLog {
  readonly #place: Place;
  /** Of the last line that was read; times of kubelets are all of the same length. */
  #last: string | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  /** Lines that were not read before. Ends with the run, or with the connection, or when aborted. */
  async *read(options: {
    tailLines?: number;
    follow?: boolean;
    signal: AbortSignal;
  }): AsyncGenerator<string> {
    const { client, ...place } = this.#place;
    const last = this.#last;
    // Where none is wanted, the last one says from where on.
    const isUnwanted = options.tailLines === 0;
    const from = {
      ...(isUnwanted && { tailLines: 1 }),
      ...(last !== undefined && { sinceTime: wholeSeconds(last) }),
    };
    for await (const line of podLog(client, { ...place, ...options, ...from, timestamps: true })) {
      const [, time, text] = stamped.exec(line) ?? [];
      // What a kubelet says for itself has no time.
      if (time === undefined || text === undefined) {
        if (!isUnwanted) yield line;
        continue;
      }
      // Of the second in which it was left.
      if (last !== undefined && time <= last) continue;
      this.#last = time;
      if (!isUnwanted) yield text;
    }
  }
}

/** API servers tell kubelets no more of a time than that. */
function wholeSeconds(time: string): string {
  return time.replace(/\.\d+/, '');
}
