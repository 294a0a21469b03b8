import { type Connection, resources } from '../../../../kube/index.ts';
import { valueAfter } from '../event-bytes.ts';
import { EventLines } from '../event-lines.ts';
import { operationKey } from './objects.ts';

const annotation = Buffer.from(`"${operationKey}":"`);

export interface OtherSideOptions {
  connection: Connection;
  labelSelector: string;
  onSeen: (annotation: string, isDeleted: boolean) => void;
}

/** Watches of the other side, for the operations that its objects carry. */
export class OtherSide {
  readonly #lines: EventLines[];
  readonly #stop = new AbortController();
  #running: Promise<unknown> | undefined;

  constructor({ connection, labelSelector, onSeen }: OtherSideOptions) {
    this.#lines = [resources.pods, resources.configMaps, resources.services].map(
      (resource) =>
        new EventLines({
          connection,
          resource,
          labelSelector,
          onList: (objects) => {
            for (const { metadata } of objects) {
              const value = metadata.annotations?.[operationKey];
              if (value !== undefined) onSeen(value, false);
            }
          },
          onEvent: (type, line) => {
            const value = valueAfter(line, annotation);
            if (value !== undefined) onSeen(value, type === 'DELETED');
          },
        }),
    );
  }

  async open(): Promise<void> {
    this.#running = Promise.all(this.#lines.map((lines) => lines.run(this.#stop.signal)));
    await Promise.all(this.#lines.map(({ listed }) => listed));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}
