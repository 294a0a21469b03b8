import type { KubeObject } from '../../kube/index.ts';
import { DriverError } from '../../vc-manager/drivers/index.ts';

/** Of a log that ends. */
export async function lines(iterable: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of iterable) all.push(line);
  return all;
}

/** The DriverError that it has to reject with. */
export async function failure(promise: Promise<unknown>): Promise<DriverError> {
  const error = await promise.then(
    () => Promise.reject(new Error('it did not fail')),
    (reason: unknown) => reason,
  );
  if (!(error instanceof DriverError)) throw error;
  return error;
}

/** What an API server says once, when it starts; or the end of its log. */
export function saysVersion({ done, value }: IteratorResult<string, unknown>): boolean {
  return done === true || / Version: v1\./.test(String(value));
}

export function newKind(plural: string): KubeObject {
  const group = 'conformance.skerry.dev';
  const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  return {
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, singular: plural.slice(0, -1), kind: 'Well' },
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
    },
  };
}
