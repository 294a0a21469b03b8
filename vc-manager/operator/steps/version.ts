import { minorOf, parseTemplate, selectTemplate, type TemplateChoice } from '../../control-plane/index.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

/** Which template, and which exact version. One that runs keeps its version. */
export const version: Step = {
  name: 'version',
  doing: 'Choosing the Kubernetes version',
  condition: 'APIServerReady',
  async run(tenant, services) {
    tenant.choice = choose(tenant, services);
  },
};

function choose(tenant: Tenant, { templates, settings }: Services): TemplateChoice {
  const { spec, status } = tenant.vc;
  // An edited template may be wrong: that is the trouble of those who use it only.
  const known = [...templates.list()];
  const select = (wanted: {
    template?: string | undefined;
    version?: string | undefined;
  }): TemplateChoice => {
    const choice = selectTemplate(known, { ...wanted, defaultVersion: settings.defaultVersion });
    parseTemplate(choice.template, choice.template.metadata.name);
    return choice;
  };
  const running = status?.version;
  if (running === undefined) return select({ template: spec?.template, version: spec?.version });

  if (spec?.version !== undefined && spec.version !== running && spec.version !== minorOf(running)) {
    tenant.notes.push(
      `It runs ${running}: changing the version of a running control plane to ${spec.version} is not supported yet.`,
    );
  }
  const named = known.find((template) => template.metadata.name === spec?.template);
  if (named !== undefined && minorOf(named.spec.kubernetesVersion) !== minorOf(running)) {
    tenant.notes.push(
      `Its template ${named.metadata.name} is for ${named.spec.kubernetesVersion} and is not used.`,
    );
    return select({ version: running });
  }
  return select({ template: spec?.template, version: running });
}
