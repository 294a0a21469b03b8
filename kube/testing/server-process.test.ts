import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { freePort } from './free-port.ts';
import { ServerProcess } from './server-process.ts';

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

it('serves from its start until it is killed, and again', async () => {
  const port = await freePort();
  const server = new ServerProcess(process.execPath);
  const args = ['-e', `require('node:net').createServer().listen(${port}, '127.0.0.1')`];
  for (let round = 0; round < 2; round++) {
    await server.start({ args, isUp: () => isOpen(port), stdio: 'ignore' });
    expect(await isOpen(port)).toBe(true);
    await server.kill();
    expect(await isOpen(port)).toBe(false);
  }
  await server.kill();
});

it('is an error where it ends before it serves, or is not there', async () => {
  const isUp = async (): Promise<boolean> => false;
  const ends = new ServerProcess(process.execPath);
  await expect(ends.start({ args: ['-e', 'process.exit(3)'], isUp })).rejects.toThrow('has ended with 3');
  const killed = ends.start({ args: ['-e', 'process.kill(process.pid, "SIGKILL")'], isUp });
  await expect(killed).rejects.toThrow('has ended with SIGKILL');
  await expect(new ServerProcess('/nowhere/server').start({ args: [], isUp })).rejects.toThrow('ENOENT');
});
