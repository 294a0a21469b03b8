import { readdir, readFile, readlink } from 'node:fs/promises';
import { createServer } from 'node:net';

/** Whether another process listens there. Other obstacles are left to the component itself to report. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'EADDRINUSE'));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Which process listens on the port, as far as Linux lets us see; undefined elsewhere and for other users' processes. */
export async function portHolder(port: number): Promise<{ pid: number; command: string } | undefined> {
  const sockets = new Set<string>();
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const lines = (await readFile(table, 'utf8').catch(() => '')).split('\n').slice(1);
    for (const line of lines) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      // 0A: listening.
      if (state === '0A' && Number.parseInt(local?.split(':')[1] ?? '', 16) === port)
        sockets.add(`socket:[${inode}]`);
    }
  }
  if (sockets.size === 0) return undefined;
  for (const pid of await runningPids()) {
    for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      if (!sockets.has(await readlink(`/proc/${pid}/fd/${fd}`).catch(() => ''))) continue;
      const command = (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '?')).trim();
      return { pid, command };
    }
  }
  return undefined;
}

/** All process numbers; Linux only, else empty. */
export async function runningPids(): Promise<number[]> {
  const names = await readdir('/proc').catch(() => []);
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}
