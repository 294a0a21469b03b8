import {
  ControlPlaneError,
  minorOf,
  parseTemplate,
  selectTemplate,
  type TemplateChoice,
} from '../../control-plane/index.ts';
import { templateNotAllowed, versionTooNew } from '../errors.ts';
import type { Services } from '../services.ts';
import { readSuperVersion } from '../super-version.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

interface Wanted {
  template?: string | undefined;
  version?: string | undefined;
}

/** Which template, and which exact version. One that runs keeps its version, and its template too. */
export const version: Step = {
  name: 'version',
  doing: 'Choosing the Kubernetes version',
  condition: 'APIServerReady',
  async run(tenant, services) {
    tenant.choice = tenant.wasStarted ? chooseAgain(tenant, services) : chooseFirst(tenant, services);
    await checkSkew(tenant, services, tenant.choice.version);
  },
};

function chooseFirst(tenant: Tenant, services: Services): TemplateChoice {
  const { spec } = tenant.vc;
  const wanted = { template: spec?.template, version: spec?.version };
  const policy = tenant.ceiling?.metadata.name ?? '';
  const allowed = tenant.ceiling?.spec?.templates;
  if (allowed === undefined) return select(services, wanted);
  if (wanted.template !== undefined && !allowed.includes(wanted.template)) {
    throw templateNotAllowed(wanted.template, policy, allowed);
  }
  const [first] = wanted.template === undefined && wanted.version === undefined ? allowed : [];
  try {
    return select(services, first === undefined ? wanted : { template: first }, allowed);
  } catch (error) {
    if (!(error instanceof ControlPlaneError) || error.code !== 'UnsupportedVersion') throw error;
    // There is one for this version, but not for this namespace.
    throw templateNotAllowed(select(services, wanted).template.metadata.name, policy, allowed);
  }
}

function chooseAgain(tenant: Tenant, services: Services): TemplateChoice {
  const { spec, status } = tenant.vc;
  const running = tenant.required(status?.version, 'version');
  if (spec?.version !== undefined && spec.version !== running && spec.version !== minorOf(running)) {
    tenant.notes.push(
      `It runs ${running}: changing the version of a running control plane to ${spec.version} is not supported yet.`,
    );
  }
  const named = [...services.templates.list()].find((template) => template.metadata.name === spec?.template);
  if (named !== undefined && minorOf(named.spec.kubernetesVersion) !== minorOf(running)) {
    tenant.notes.push(
      `Its template ${named.metadata.name} is for ${named.spec.kubernetesVersion} and is not used.`,
    );
    return select(services, { version: running });
  }
  return select(services, { template: spec?.template, version: running });
}

/** Among the templates that there are, or those of them that `allowed` names. */
function select(
  { templates, settings }: Services,
  wanted: Wanted,
  allowed?: readonly string[],
): TemplateChoice {
  // An edited template may be wrong: that is the trouble of those who use it only.
  const known = [...templates.list()].filter(({ metadata }) => allowed?.includes(metadata.name) ?? true);
  const choice = selectTemplate(known, { ...wanted, defaultVersion: settings.defaultVersion });
  parseTemplate(choice.template, choice.template.metadata.name);
  return choice;
}

/** One minor above the super cluster's the API of pods is still the same; further on nobody has promised so. */
async function checkSkew(tenant: Tenant, services: Services, wanted: string): Promise<void> {
  if (minorNumber(wanted) <= minorNumber(services.superVersion) + 1) return;
  // It may have been upgraded since.
  services.superVersion = await readSuperVersion(services.client, tenant.signal);
  const newest = minorNumber(services.superVersion) + 1;
  if (minorNumber(wanted) <= newest) return;
  const error = versionTooNew(wanted, services.superVersion, `1.${newest}`);
  if (!tenant.wasStarted) throw error;
  tenant.notes.push(`Its version is too new: ${error.message}`);
}

function minorNumber(version: string): number {
  return Number(minorOf(version).split('.')[1]);
}
