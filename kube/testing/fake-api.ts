import { applyMergePatch } from '../merge-patch.ts';
import type { KubeObject } from '../types.ts';
import { type RequestInfo, refusals, selector } from './fake-request.ts';
import { type FakeStorage, refOf } from './fake-storage.ts';

interface Operation {
  op: 'add' | 'remove' | 'replace' | 'test' | 'move' | 'copy';
  path: string;
  from?: string;
  value?: unknown;
}

/** Applies a JSON patch (RFC 6902) to a copy. Throws when a path or a test does not hold. */
function applyJsonPatch(target: unknown, operations: readonly Operation[]): unknown {
  const root = { document: structuredClone(target) };
  for (const operation of operations) {
    const value = operation.from === undefined ? operation.value : read(root, operation.from);
    switch (operation.op) {
      case 'test':
        if (JSON.stringify(read(root, operation.path)) !== JSON.stringify(value)) {
          throw new Error(`test of ${operation.path} failed`);
        }
        break;
      case 'remove':
        remove(root, operation.path);
        break;
      case 'replace':
        read(root, operation.path);
        remove(root, operation.path);
        add(root, operation.path, value);
        break;
      case 'move':
        remove(root, operation.from ?? '');
        add(root, operation.path, value);
        break;
      case 'add':
      case 'copy':
        add(root, operation.path, structuredClone(value));
        break;
    }
  }
  return root.document;
}

type Root = { document: unknown };

function locate(root: Root, pointer: string): { parent: Record<string, unknown> | unknown[]; key: string } {
  const keys = pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  let parent: unknown = root;
  let key = 'document';
  for (const next of keys) {
    parent = (parent as Record<string, unknown>)[key];
    if (typeof parent !== 'object' || parent === null) throw new Error(`there is no ${pointer}`);
    key = next;
  }
  return { parent: parent as Record<string, unknown> | unknown[], key };
}

function read(root: Root, pointer: string): unknown {
  const { parent, key } = locate(root, pointer);
  if (!Object.hasOwn(parent, key)) throw new Error(`there is no ${pointer}`);
  return (parent as Record<string, unknown>)[key];
}

function add(root: Root, pointer: string, value: unknown): void {
  const { parent, key } = locate(root, pointer);
  if (Array.isArray(parent)) parent.splice(key === '-' ? parent.length : Number(key), 0, value);
  else parent[key] = value;
}

function remove(root: Root, pointer: string): void {
  read(root, pointer);
  const { parent, key } = locate(root, pointer);
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
}

interface TokenRequest extends KubeObject {
  spec?: {
    audiences?: string[];
    expirationSeconds?: number;
    boundObjectRef?: { name?: string; uid?: string };
  };
}

const hour = 3_600;
const shortestSeconds = 600;

/**
 * TokenRequest, with tokens that say in clear text what they are:
 * `token-<n>/<namespace>/<account>/<pod UID>/<node of the pod>/<audience>`.
 */
class FakeTokens {
  readonly #storage: FakeStorage;
  #issued = 0;

  constructor(storage: FakeStorage) {
    this.#storage = storage;
  }

  issue({ metadata: { namespace, name } }: KubeObject, request: TokenRequest): KubeObject {
    const { audiences = [], expirationSeconds = hour, boundObjectRef } = request.spec ?? {};
    if (expirationSeconds < shortestSeconds)
      throw refusals.invalid('spec.expirationSeconds: may not specify a duration less than 10 minutes');
    let bound = '/';
    if (boundObjectRef?.name !== undefined) {
      const pod = this.#storage.get('/v1/pods', { namespace, name: boundObjectRef.name });
      if (pod === undefined) throw refusals.notFound(`pods "${boundObjectRef.name}"`, 'pods');
      const { uid } = pod.metadata;
      if (uid !== boundObjectRef.uid) throw refusals.conflict(`TokenRequest "${boundObjectRef.name}"`);
      bound = `${uid}/${(pod['spec'] as { nodeName?: string } | undefined)?.nodeName ?? ''}`;
    }
    const audience = audiences.join(',');
    const token = `token-${++this.#issued}/${namespace}/${name}/${bound}/${audience}`;
    const expirationTimestamp = new Date(Date.now() + expirationSeconds * 1_000).toISOString();
    return {
      ...request,
      spec: { ...request.spec, expirationSeconds },
      status: { token, expirationTimestamp },
    };
  }
}

interface Reply {
  code: number;
  body: unknown;
}

interface DeleteOptions {
  gracePeriodSeconds?: number;
  preconditions?: { uid?: string; resourceVersion?: string };
}

/** The verbs of an API server over a storage, without HTTP. Handlers throw Refusal. */
export class FakeApi {
  readonly #storage: FakeStorage;
  readonly #statusResources: ReadonlySet<string>;
  /** Snapshots that continue tokens point into. */
  readonly #pages = new Map<string, { version: number; items: KubeObject[] }>();
  readonly #tokens: FakeTokens;
  #continued = 0;

  /** `statusResources`: plurals whose status is written through the subresource only. */
  constructor(storage: FakeStorage, statusResources: Iterable<string>) {
    this.#storage = storage;
    this.#tokens = new FakeTokens(storage);
    this.#statusResources = new Set(statusResources);
  }

  /** Continue tokens of before are void. */
  forgetPages(): void {
    this.#pages.clear();
  }

  handle(info: RequestInfo, body: unknown, contentType: string): Reply {
    switch (info.verb) {
      case 'get':
        return { code: 200, body: this.#existing(info) };
      case 'list':
        return { code: 200, body: this.#list(info) };
      case 'create':
        return { code: 201, body: this.#create(info, body as KubeObject) };
      case 'update':
        return { code: 200, body: this.#write(info, this.#existing(info), body as KubeObject) };
      case 'patch':
        return this.#patch(info, body, contentType);
      case 'delete':
        return { code: 200, body: this.#delete(info, (body ?? {}) as DeleteOptions) };
      case 'watch':
      case 'other':
        throw refusals.notFound(info.path);
    }
  }

  #existing(info: RequestInfo): KubeObject {
    const object = this.#storage.get(info.collection, { name: info.name ?? '', namespace: info.namespace });
    if (object === undefined) throw refusals.notFound(`${info.plural} "${info.name}"`, info.plural);
    return object;
  }

  #list(info: RequestInfo): unknown {
    // Measured on 1.36: a list that may come from memory comes in one piece.
    const limit = info.query.get('resourceVersion') === '0' ? 0 : Number(info.query.get('limit') ?? 0);
    const token = info.query.get('continue');
    const { version, items } = token === null ? this.#snapshot(info) : this.#page(token);
    const shown = limit > 0 ? items.slice(0, limit) : items;
    const rest = items.slice(shown.length);
    return {
      apiVersion: info.apiVersion,
      kind: `${items[0]?.kind ?? ''}List`,
      metadata: {
        resourceVersion: String(version),
        ...(rest.length === 0
          ? {}
          : { continue: this.#token(version, rest), remainingItemCount: rest.length }),
      },
      // Servers leave out what the list says already.
      items: shown.map(({ apiVersion, kind, ...item }) => item),
    };
  }

  #snapshot(info: RequestInfo): { version: number; items: KubeObject[] } {
    const asked = Number(info.query.get('resourceVersion') || 0);
    if (asked > this.#storage.version) throw refusals.tooLarge(asked, this.#storage.version);
    const exact = info.query.get('resourceVersionMatch') === 'Exact';
    if (exact && asked < this.#storage.compacted) throw refusals.expired();
    const version = exact ? asked : this.#storage.version;
    const matches = selector(info.query.get('labelSelector'), info.query.get('fieldSelector'));
    const items = this.#storage
      .listAt(info.collection, version)
      .filter((object) => info.namespace === undefined || object.metadata.namespace === info.namespace)
      .filter(matches);
    return { version, items };
  }

  #token(version: number, items: KubeObject[]): string {
    const token = `page-${++this.#continued}`;
    this.#pages.set(token, { version, items });
    return token;
  }

  #page(token: string): { version: number; items: KubeObject[] } {
    const page = this.#pages.get(token);
    if (page === undefined || page.version < this.#storage.compacted) throw refusals.expired();
    return page;
  }

  #create(info: RequestInfo, body: KubeObject): unknown {
    if (info.subresource !== undefined) return this.#createSubresource(info, body);
    const suffix = Math.random().toString(36).slice(2, 7);
    const name = body.metadata.name ?? `${body.metadata.generateName ?? ''}${suffix}`;
    if (info.namespace !== undefined && (body.metadata.namespace ?? info.namespace) !== info.namespace) {
      throw refusals.badRequest('the namespace of the object does not match the request');
    }
    const metadata = { ...body.metadata, name, generation: 1 };
    delete metadata.resourceVersion;
    delete metadata.uid;
    if (info.namespace !== undefined) metadata.namespace = info.namespace;
    const object: KubeObject = { ...body, metadata };
    if (this.#storage.get(info.collection, refOf(object)) !== undefined) {
      throw refusals.alreadyExists(`${info.plural} "${name}"`);
    }
    if (this.#statusResources.has(info.plural)) delete object['status'];
    return info.query.get('dryRun') === 'All' ? object : this.#storage.put(info.collection, object);
  }

  #createSubresource(info: RequestInfo, body: KubeObject): unknown {
    const object = this.#existing(info);
    if (info.subresource === 'binding') {
      const target = body['target'] as { name: string };
      const spec = { ...(object['spec'] as object), nodeName: target.name };
      const annotations = { ...object.metadata.annotations, ...body.metadata?.annotations };
      const labels = { ...object.metadata.labels, ...body.metadata?.labels };
      const metadata = { ...object.metadata, annotations, labels };
      this.#storage.put(info.collection, { ...object, metadata, spec });
      return { kind: 'Status', apiVersion: 'v1', status: 'Success', code: 201 };
    }
    if (info.subresource === 'eviction') return this.#delete(info, {});
    if (info.plural === 'serviceaccounts' && info.subresource === 'token')
      return this.#tokens.issue(object, body);
    throw refusals.notFound(info.path);
  }

  #patch(info: RequestInfo, patch: unknown, contentType: string): Reply {
    const ref = { name: info.name ?? '', namespace: info.namespace };
    if (contentType.startsWith('application/apply-patch') && !this.#storage.get(info.collection, ref)) {
      return { code: 201, body: this.#create({ ...info, subresource: undefined }, patch as KubeObject) };
    }
    const current = this.#existing(info);
    let wanted: unknown;
    try {
      // Strategic merge and apply need a schema; for this fake they are merge patches.
      wanted = Array.isArray(patch) ? applyJsonPatch(current, patch) : applyMergePatch(current, patch);
    } catch (error) {
      throw refusals.badRequest(error instanceof Error ? error.message : String(error));
    }
    return { code: 200, body: this.#write(info, current, wanted as KubeObject) };
  }

  #write(info: RequestInfo, current: KubeObject, body: KubeObject): KubeObject {
    const { uid, resourceVersion } = body.metadata;
    if (uid !== undefined && uid !== current.metadata.uid)
      throw refusals.conflict(`${info.plural} "${info.name}"`);
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw refusals.conflict(`${info.plural} "${info.name}"`);
    }
    const object = this.#merged(info, current, body);
    if (JSON.stringify(object) === JSON.stringify(current)) return current;
    const stored = this.#storage.put(info.collection, object);
    if (stored.metadata.deletionTimestamp !== undefined && !stored.metadata.finalizers?.length) {
      return this.#storage.remove(info.collection, refOf(stored)) ?? stored;
    }
    return stored;
  }

  #merged(info: RequestInfo, current: KubeObject, body: KubeObject): KubeObject {
    const { uid, creationTimestamp, deletionTimestamp, resourceVersion, generation } = current.metadata;
    if (info.subresource === 'status') return { ...current, status: body['status'] };
    const changed = JSON.stringify(body['spec']) !== JSON.stringify(current['spec']);
    const metadata = {
      ...body.metadata,
      ...(uid === undefined ? {} : { uid }),
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      generation: (generation ?? 1) + (changed ? 1 : 0),
    };
    const object: KubeObject = { ...body, metadata };
    if (this.#statusResources.has(info.plural)) {
      if (current['status'] === undefined) delete object['status'];
      else object['status'] = current['status'];
    }
    return object;
  }

  #delete(info: RequestInfo, options: DeleteOptions): unknown {
    if (info.name === undefined) {
      for (const object of this.#snapshot(info).items) this.#storage.remove(info.collection, refOf(object));
      return { kind: 'Status', apiVersion: 'v1', status: 'Success' };
    }
    const object = this.#existing(info);
    const { uid, resourceVersion } = options.preconditions ?? {};
    if (
      (uid !== undefined && uid !== object.metadata.uid) ||
      (resourceVersion !== undefined && resourceVersion !== object.metadata.resourceVersion)
    ) {
      throw refusals.conflict(`${info.plural} "${info.name}"`);
    }
    const graceSeconds = this.#grace(info, object, options);
    if (object.metadata.finalizers?.length || graceSeconds > 0) {
      if (object.metadata.deletionTimestamp !== undefined) return object;
      const deletionTimestamp = new Date().toISOString().replace(/\.\d+/, '');
      const metadata = { ...object.metadata, deletionTimestamp, deletionGracePeriodSeconds: graceSeconds };
      return this.#storage.put(info.collection, { ...object, metadata });
    }
    this.#storage.remove(info.collection, refOf(object));
    return {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Success',
      details: { name: info.name, uid: object.metadata.uid },
    };
  }

  /** Pods on a node stay until their kubelet says that they are gone, by deleting with grace period 0. */
  #grace(info: RequestInfo, object: KubeObject, options: DeleteOptions): number {
    if (info.plural !== 'pods') return 0;
    const spec = object['spec'] as { nodeName?: string; terminationGracePeriodSeconds?: number } | undefined;
    if (!spec?.nodeName) return 0;
    return options.gracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? 30;
  }
}
