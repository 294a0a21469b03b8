/** A template's file as it is written, before anything of it is checked. */
export interface Variant {
  /** Name of the file beside it whose spec it changes. */
  base?: string;
  spec?: Spec;
  [field: string]: unknown;
}

interface Spec {
  components?: Component[];
  [field: string]: unknown;
}

interface Component {
  name: string;
  args?: Record<string, string>;
  [field: string]: unknown;
}

/**
 * One spec put over another: components are matched by their names, new ones come first as others may depend on them,
 * and of the flags of a component only those that are named change.
 */
export function overlaid(base: Spec, over: Spec): Spec {
  const known = base.components ?? [];
  const changes = over.components ?? [];
  const added = changes.filter(({ name }) => !known.some((each) => each.name === name));
  const changed = known.map((component) => {
    const change = changes.find(({ name }) => name === component.name);
    if (change === undefined) return component;
    return { ...component, ...change, args: { ...component.args, ...change.args } };
  });
  return { ...base, ...over, components: [...added, ...changed] };
}
