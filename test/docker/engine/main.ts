import { readdir } from 'node:fs/promises';
import { Cache } from '../../real-node/build/programs.ts';
import { prepareImages, provideSkerryArchives } from '../images/index.ts';
import { provideCompose, startEngine, whyNoEngine } from './engine.ts';

const usage = `A Docker engine of its own on this machine, for tests and for looking around. Needs root.

  main.ts check        why this machine cannot; silent when it can
  main.ts prepare      builds what is needed (Docker Compose, images), into the cache
  main.ts hold DIR     starts an engine in this directory, and removes it when it is itself ended
`;

const tell = (line: string): void => console.error(line);

async function main([command, directory]: readonly string[]): Promise<number> {
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
  if (command === 'check') {
    const reason = whyNoEngine(process.env);
    if (reason !== undefined) console.log(reason);
    return reason === undefined ? 0 : 1;
  }
  if (command === 'prepare') {
    await provideCompose(cache);
    await prepareImages(cache);
    await provideSkerryArchives(tell);
    return 0;
  }
  if (command === 'hold' && directory !== undefined) {
    const there = await readdir(directory).catch(() => []);
    if (there.length > 0)
      throw new Error(`${directory} is not empty, and all in it would be removed at the end`);
    const engine = await startEngine({ directory, compose: await provideCompose(cache), tell });
    console.log(
      Object.entries(engine.env)
        .map(([name, value]) => `export ${name}=${value}`)
        .join('\n'),
    );
    await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve));
    await engine.stop();
    return 0;
  }
  console.error(usage);
  return 2;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(`error: ${(error as Error).message}`);
  process.exitCode = 1;
}
