import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { TwoSides } from './testing/two-sides.ts';

const tenantsOwn = { password: 'dGVuYW50' };
const operators = { password: 'b3BlcmF0b3I=' };

function secret(name: string, data = tenantsOwn): KubeObject {
  return { metadata: { name }, type: 'Opaque', data };
}

function reader(name: string, secretName: string, optional = false): KubeObject {
  const env = [
    { name: 'PASSWORD', valueFrom: { secretKeyRef: { name: secretName, key: 'password', optional } } },
  ];
  return { metadata: { name }, spec: { containers: [{ name: 'main', image: 'x', env }] } };
}

/** What the container of a super pod reads its variable from. */
function source(pod: KubeObject | undefined): unknown {
  const { containers } = (pod?.['spec'] ?? {}) as { containers?: { env?: { name: string }[] }[] };
  const variable = containers?.[0]?.env?.find(({ name }) => name === 'PASSWORD') as
    | { valueFrom?: { secretKeyRef?: { name?: string } } }
    | undefined;
  return variable?.valueFrom?.secretKeyRef?.name;
}

async function start(): Promise<TwoSides> {
  const sides = await TwoSides.start((s) => {
    s.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
  });
  await sides.until(() => sides.super.server.get(resources.namespaces, { name: sides.shop }) !== undefined);
  return sides;
}

/** An object of the operator's in the super namespace, as a tool that copies pull secrets puts it there. */
function foreign(sides: TwoSides, name: string): void {
  const { metadata, ...rest } = secret(name, operators);
  sides.super.server.put(resources.secrets, { ...rest, metadata: { ...metadata, namespace: sides.shop } });
}

describe('references to what the tenant does not have (sync rule `late-references`)', () => {
  it.each([false, true])(
    'lead to no object of the operator, and to the own one when there is one (optional: %s)',
    async (optional) => {
      await using sides = await start();
      foreign(sides, 'registry');
      sides.inShop(resources.pods, reader('early', 'registry', optional));
      sides.inShop(resources.secrets, secret('twin'));
      sides.inShop(resources.pods, reader('ordinary', 'twin', optional));
      await sides.until(
        () =>
          sides.inSuper(resources.pods, 'early') !== undefined &&
          sides.inSuper(resources.pods, 'ordinary') !== undefined,
      );
      expect(source(sides.inSuper(resources.pods, 'early'))).toBe('skerry-late-registry');
      expect(sides.inSuper(resources.secrets, 'skerry-late-registry')).toBeUndefined();
      expect(sides.inSuper(resources.secrets, 'registry')?.['data']).toEqual(operators);

      sides.inShop(resources.secrets, secret('registry'));
      const late = () => sides.inSuper(resources.secrets, 'skerry-late-registry');
      await sides.until(() => late() !== undefined);
      expect(late()?.['data']).toEqual(tenantsOwn);
      expect(sides.inSuper(resources.secrets, 'registry')?.['data']).toEqual(operators);

      sides.inShop(resources.secrets, secret('registry', { password: 'bmV3' }));
      await sides.until(() => (late()?.['data'] as typeof tenantsOwn | undefined)?.password === 'bmV3');

      sides.super.server.remove(resources.pods, { namespace: sides.shop, name: 'early' });
      sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'early' });
      await sides.until(() => late() === undefined);
    },
  );

  it('a pod waits while an object of the operator has the place of one that the tenant has', async () => {
    await using sides = await start();
    foreign(sides, 'registry');
    sides.inShop(resources.secrets, secret('registry'));
    sides.inShop(resources.pods, reader('late', 'registry'));
    await sides.until(() =>
      sides.tenant.server.list(resources.events).some((event) => event['reason'] === 'NameConflict'),
    );
    sides.inShop(resources.secrets, secret('twin'));
    sides.inShop(resources.pods, reader('ordinary', 'twin'));
    await sides.until(() => sides.inSuper(resources.pods, 'ordinary') !== undefined);
    expect(source(sides.inSuper(resources.pods, 'ordinary'))).toBe('twin');
    expect(sides.inSuper(resources.pods, 'late')).toBeUndefined();
  });
});
