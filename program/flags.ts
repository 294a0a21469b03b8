import { Help, type HelpConfiguration, InvalidArgumentError, Option } from 'commander';
import { defaultSystemNamespace } from '../api/names.ts';

export interface Address {
  host: string;
  port: number;
}

/** `HOST:PORT`, with an IPv6 address in brackets; without a host: all addresses. */
export function address(text: string): Address {
  const match = /^(?:\[(.+)\]|([^:]*)):(\d+)$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535)
    throw new InvalidArgumentError('give it as HOST:PORT, e.g. 127.0.0.1:10451');
  return { host: match[1] ?? (match[2] === '' ? '0.0.0.0' : (match[2] as string)), port };
}

/** `--system-namespace`. `what`: what is in that namespace. */
export function systemNamespaceOption(what: string): Option {
  return new Option('--system-namespace <namespace>', what).default(defaultSystemNamespace);
}

/** For `configureHelp`: default addresses as they are given, and no default that is an empty list or false. */
export const flagHelp: HelpConfiguration = {
  optionDescription(option: Option): string {
    const value: unknown = option.defaultValue;
    const isNothing = value === false || (Array.isArray(value) && value.length === 0);
    const shown: Option = Object.create(option);
    if (isNothing) shown.defaultValue = undefined;
    else if (isAddress(value)) shown.defaultValueDescription = `${value.host}:${value.port}`;
    return new Help().optionDescription(shown);
  },
};

function isAddress(value: unknown): value is Address {
  return typeof value === 'object' && value !== null && 'host' in value && 'port' in value;
}

export function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new InvalidArgumentError('give a whole number of at least 1');
  return number;
}

/** The values of an option that may be given several times. */
export function repeatable(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** A domain below which there is room for a label. */
export function dnsDomain(text: string): string {
  if (text.length > 200 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text))
    throw new InvalidArgumentError('give a DNS domain in lower case, e.g. tenants.example.com');
  return text;
}
