import type { ComponentPlan, PlanFile } from '../../control-plane/index.ts';
import { componentHash } from '../component-hash.ts';
import { imageOf } from '../images.ts';
import { noImage } from './errors.ts';
import { dataVolume, filesVolume, inside } from './names.ts';

/** What a container of a component is made of. */
export interface Target {
  component: ComponentPlan;
  hash: string;
  image: string;
  /** The program by its name; images have it in PATH. */
  program: string;
  args: string[];
  env: Record<string, string>;
  files: PlanFile[];
  /** Absent when the component has no files, or no directory of its own. */
  volumes: { files?: string; data?: string };
}

/** Throws `NoImage` for a component that is no program with an upstream image. */
export function targetOf(id: string, component: ComponentPlan, registry: string | undefined): Target {
  const { binary, name } = component;
  if (!('name' in binary)) throw noImage({ id, component: name }, binary.command);
  const fill = (text: string): string =>
    text.replaceAll('${files}', inside.files).replaceAll('${data}', inside.data);
  const hash = componentHash(component);
  const texts = [
    ...component.args,
    ...Object.values(component.env),
    ...component.files.map((f) => f.content),
  ];
  return {
    component,
    hash,
    image: imageOf(binary, registry),
    program: binary.name,
    args: component.args.map(fill),
    env: Object.fromEntries(Object.entries(component.env).map(([key, value]) => [key, fill(value)])),
    files: component.files.map((file) => ({ ...file, content: fill(file.content) })),
    volumes: {
      ...(component.files.length === 0 ? {} : { files: filesVolume(id, name, hash) }),
      ...(texts.some((text) => text.includes('${data}')) ? { data: dataVolume(id, name) } : {}),
    },
  };
}
