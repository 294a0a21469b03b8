interface Operation {
  op: 'add' | 'remove' | 'replace' | 'test' | 'move' | 'copy';
  path: string;
  from?: string;
  value?: unknown;
}

/** Applies a JSON patch (RFC 6902) to a copy. Throws when a path or a test does not hold. */
export function applyJsonPatch(target: unknown, operations: readonly Operation[]): unknown {
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
