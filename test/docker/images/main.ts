import { execa } from 'execa';
import { withBuiltSkerryImages, withKubernetesImages, withRedisImage } from './index.ts';

const usage = `Makes every image that docker-compose.yml names from the programs of this machine, with no container registry,
and has a Docker engine know them: that of DOCKER_HOST, else the usual one. deploy/compose/local.env names them.

  main.ts
`;

async function main(args: readonly string[]): Promise<number> {
  if (args.length > 0) {
    console.error(usage);
    return 2;
  }
  const engine = { host: process.env['DOCKER_HOST'] ?? '', env: {} };
  const version = await execa('docker', ['version'], { reject: false });
  if (version.failed) throw new Error(`there is no Docker engine: ${version.stderr || version.shortMessage}`);
  await withBuiltSkerryImages(engine);
  await withKubernetesImages(engine);
  await withRedisImage(engine);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(`error: ${(error as Error).message}`);
  process.exitCode = 1;
}
