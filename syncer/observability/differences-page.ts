import type { DifferenceReport } from '../../api/difference-report.ts';

const listedByDefault = 200;
const mostListed = 2_000;

/**
 * What `/debug/differences` answers: `?tenant=NAMESPACE/NAME&most=N`, how the two sides of that tenant differ, and why.
 * `differencesOf`: undefined for a tenant that is not served here.
 */
export async function differencesPage(
  differencesOf: (tenant: string, most: number) => Promise<DifferenceReport | undefined>,
  query: URLSearchParams,
): Promise<{ status: number; body: object }> {
  const tenant = query.get('tenant');
  const most = Number(query.get('most') ?? listedByDefault);
  if (tenant === null) return refusal(400, 'BadRequest', 'give tenant=NAMESPACE/NAME');
  if (!(Number.isInteger(most) && most >= 1 && most <= mostListed))
    return refusal(400, 'BadRequest', `most: give a whole number from 1 to ${mostListed}`);
  const body = await differencesOf(tenant, most);
  return body === undefined
    ? refusal(404, 'UnknownTenant', `this syncer does not serve ${tenant}`)
    : { status: 200, body };
}

function refusal(status: number, reason: string, message: string): { status: number; body: object } {
  return { status, body: { reason, message } };
}
