import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** One request to the super cluster, as its API server has recorded it. */
export interface Asked {
  readonly user: string;
  readonly verb: string;
  /** Undefined: no resource, such as a path of discovery. */
  readonly resource?: {
    readonly apiGroup: string;
    /** With the subresource: `pods/log`. */
    readonly resource: string;
    readonly namespace: string | undefined;
    readonly name: string | undefined;
  };
  /** A patch that has made the object, for which one needs the right to create it as well. */
  readonly hasCreated: boolean;
  readonly path: string;
  /** By roles; what was let in may have been refused by other rules. */
  readonly isAllowed: boolean;
}

interface AuditEvent {
  verb: string;
  requestURI: string;
  user: { username: string };
  objectRef?: {
    apiGroup?: string;
    resource?: string;
    subresource?: string;
    namespace?: string;
    name?: string;
  };
  annotations?: Record<string, string>;
  responseStatus?: { code?: number };
}

/** Where a local stack that was started with `--audit` has it. */
export function auditLogOf(stateDir: string): string {
  return join(stateDir, 'stack', 'data', 'kube-apiserver', 'audit.log');
}

/** Nothing if there is no such file. A line that a crash has cut off is left out. */
export async function* readAuditLog(file: string): AsyncGenerator<Asked> {
  if (!existsSync(file)) return;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const asked = parseAuditLine(line);
    if (asked !== undefined) yield asked;
  }
}

export function parseAuditLine(line: string): Asked | undefined {
  let event: AuditEvent;
  try {
    event = JSON.parse(line) as AuditEvent;
  } catch {
    return undefined;
  }
  const { verb, requestURI: path, user, objectRef, annotations, responseStatus } = event;
  const isAllowed = annotations?.['authorization.k8s.io/decision'] !== 'forbid';
  const hasCreated = verb === 'patch' && responseStatus?.code === 201;
  const common = { user: user.username, verb, hasCreated, path, isAllowed };
  if (objectRef?.resource === undefined) return common;
  const { apiGroup = '', resource, subresource, namespace, name } = objectRef;
  const full = subresource === undefined ? resource : `${resource}/${subresource}`;
  return { ...common, resource: { apiGroup, resource: full, namespace, name } };
}
