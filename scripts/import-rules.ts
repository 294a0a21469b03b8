/** One file and the files of this project that it imports, as paths from the root. */
export interface SourceFile {
  readonly path: string;
  readonly imports: readonly string[];
}

/** Who may import whom, by top-level folder. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  // Types of Kubernetes objects: nothing of kube is left of it at run time.
  api: ['api', 'kube'],
  kube: ['kube'],
  syncer: ['syncer', 'kube', 'api'],
  'vc-manager': ['vc-manager', 'kube', 'api'],
  scripts: ['scripts', 'vc-manager', 'kube', 'api'],
  test: ['test', 'scripts', 'vc-manager', 'kube', 'api'],
};

/** A room is a folder with an `index.ts`: the innermost one that a file lies in. */
function roomOf(path: string): string {
  const parts = path.split('/');
  const top = parts[0] as string;
  if (top === 'kube') return parts[1] === 'testing' ? 'kube/testing' : 'kube';
  if (top === 'syncer' || top === 'vc-manager') return parts.length > 2 ? `${top}/${parts[1]}` : top;
  return top;
}

/** Imports that point the wrong way, or past the door of another room. */
export function findImportFaults(files: readonly SourceFile[]): string[] {
  const faults: string[] = [];
  for (const { path, imports } of files) {
    const top = path.split('/')[0] as string;
    const isTest = path.endsWith('.test.ts') || path.includes('/testing/') || path.endsWith('/testing.ts');
    for (const target of imports) {
      const targetTop = target.split('/')[0] as string;
      if (allowed[top]?.includes(targetTop) !== true) {
        faults.push(`${path}: ${top} may not import ${targetTop} (${target})`);
        continue;
      }
      const room = roomOf(target);
      const sameRoom = room === roomOf(path) || path.startsWith(`${room}/`);
      const isDoor = target === `${room}/index.ts` || (room === targetTop && room !== 'kube');
      if (!sameRoom && !isDoor && !isTest) {
        faults.push(`${path}: imports ${target} past the door of ${room}`);
      }
      if (!isTest && target.includes('/testing')) faults.push(`${path}: only tests may import ${target}`);
    }
  }
  return faults;
}
