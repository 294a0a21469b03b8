import { z } from 'zod';

/** An OpenAPI v3 schema as a CustomResourceDefinition accepts it. */
export type StructuralSchema = { [keyword: string]: unknown };

// What apiextensions.k8s.io/v1 knows. Anything else in a schema would be a mistake here.
const keywords = new Set([
  'type',
  'format',
  'description',
  'default',
  'enum',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'required',
  'nullable',
]);

/**
 * The structural schema of a zod schema. Unknown fields are pruned by the API server (and refused under
 * strict field validation, kubectl's default), so strict objects need nothing of their own here.
 * Throws for what a structural schema cannot say, such as unions.
 */
export function structuralSchema(schema: z.ZodType): StructuralSchema {
  return convert(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' }), '');
}

function convert(schema: unknown, path: string): StructuralSchema {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw new Error(`schema of ${path || 'the root'} is not an object`);
  }
  const result: StructuralSchema = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === '$schema' || keyword === 'propertyNames') continue;
    if (keyword === 'properties') {
      result['properties'] = Object.fromEntries(
        Object.entries(value as object).map(([name, property]) => [
          name,
          convert(property, `${path}.${name}`),
        ]),
      );
    } else if (keyword === 'items') {
      result['items'] = convert(value, `${path}[]`);
    } else if (keyword === 'additionalProperties') {
      // `false` would contradict pruning and is refused beside `properties`.
      if (value !== false) result['additionalProperties'] = convert(value, `${path}{}`);
    } else if (keyword.startsWith('x-kubernetes-') || keywords.has(keyword)) {
      // zod bounds every integer by what JavaScript can count; a bound that large says nothing.
      if ((keyword === 'minimum' || keyword === 'maximum') && !boundMatters(value)) continue;
      result[keyword] = value;
    } else {
      throw new Error(
        `schema of ${path || 'the root'} uses ${keyword}, which a CustomResourceDefinition does not know`,
      );
    }
  }
  if (result['type'] === 'integer') result['format'] = 'int64';
  return result;
}

function boundMatters(bound: unknown): boolean {
  return typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER;
}
