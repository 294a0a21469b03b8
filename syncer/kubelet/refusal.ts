/**
 * Why a request of a tenant is not carried out. The message is for the person at kubectl: it says what can
 * be done and names nothing of the super cluster.
 */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Refusal';
    this.status = status;
  }
}

export function unknownClient(why: string): Refusal {
  return new Refusal(401, `the client certificate is not that of a tenant's API server: ${why}`);
}

export function tooMany(limit: number): Refusal {
  return new Refusal(
    429,
    `this cluster has ${limit} connections to its pods open already (logs, exec, attach, port-forward): end some of them`,
  );
}

export function notReady(): Refusal {
  return new Refusal(503, 'the pods of this cluster are not known yet; try again in a moment');
}

export function podNotFound(name: string): Refusal {
  return new Refusal(404, `pod "${name}" does not exist on this node`);
}

export function containerNotFound(container: string, pod: string): Refusal {
  return new Refusal(404, `container "${container}" not found in pod "${pod}"`);
}

export function simulated(what: string, pod: string): Refusal {
  // 500 is what an API server passes on together with the words that came with it.
  return new Refusal(
    500,
    `${what} is not available for pod ${pod}: its node is simulated and runs no containers`,
  );
}

export function nodeWide(path: string): Refusal {
  return new Refusal(
    403,
    `${path} is not available: the node is shared, and this would show more than your own pods; ` +
      'use logs, exec, attach, port-forward and top on pods',
  );
}

export function unknownPath(path: string): Refusal {
  return new Refusal(404, `${path} is not available on this node`);
}

export function upgradeRequired(): Refusal {
  return new Refusal(400, 'Upgrade request required');
}

export function wrongMethod(method: string, path: string): Refusal {
  return new Refusal(405, `${method} is not a method of ${path}`);
}

export function unreachable(cause: unknown): Refusal {
  const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  const why = typeof code === 'string' ? ` (${code})` : '';
  return new Refusal(500, `the cluster that runs this pod does not answer${why}; try again`, { cause });
}

export function notAllowedThere(what: string): Refusal {
  return new Refusal(
    500,
    `the cluster that runs this pod does not let Skerry carry out ${what}: ask its operator`,
  );
}
