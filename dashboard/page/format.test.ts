import { describe, expect, it } from 'vitest';
import { bytes, duration, milliseconds, percent, quantity, withCommands } from './format.ts';

describe('figures for people', () => {
  it('are in the unit that fits', () => {
    expect([duration(45_000), duration(900_000), duration(7_200_000), duration(12 * 86_400_000)]).toEqual([
      ...['45 s', '15 min', '2 h', '12 d'],
    ]);
    expect([milliseconds(3.44), milliseconds(120), milliseconds(3_204), milliseconds(undefined)]).toEqual([
      ...['3.4 ms', '120 ms', '3.20 s', '–'],
    ]);
    expect([bytes(0), bytes(1_536), bytes(5e11)]).toEqual(['0 B', '1.5 KiB', '466 GiB']);
    expect([percent(0), percent(0.004), percent(0.256)]).toEqual(['0 %', '< 1 %', '26 %']);
  });

  it('are read as Kubernetes writes them', () => {
    expect(quantity('requests.cpu', '2500m')).toBe('2.5');
    expect(quantity('requests.memory', '512Mi')).toBe('512 MiB');
    expect(quantity('datastore.bytes', '1536Ki')).toBe('1.5 MiB');
    expect(quantity('pods', '5000')).toBe('5,000');
    expect(quantity('pods', 'odd')).toBe('odd');
  });
});

const commandsIn = (text: string): string[] =>
  withCommands(text).flatMap(({ text: part, isCommand }) => (isCommand ? [part] : []));

describe('the command in a text', () => {
  it.each([
    ["Its components' logs: vc-manager logs blue -n teams", 'vc-manager logs blue -n teams'],
    ['Use it: vc-manager kubeconfig blue > blue.kubeconfig', 'vc-manager kubeconfig blue > blue.kubeconfig'],
    ['Start it again: vc-manager jobs retry blue', 'vc-manager jobs retry blue'],
    ['Wake it: vc-manager wake blue, or just connect to it', 'vc-manager wake blue'],
    [
      'accept it: kubectl annotate --overwrite virtualcluster blue -n teams skerry.dev/confirm-deletions=4f-a_1',
      'kubectl annotate --overwrite virtualcluster blue -n teams skerry.dev/confirm-deletions=4f-a_1',
    ],
    [
      'Restore newer data, or accept it: kubectl annotate --overwrite virtualcluster blue -n teams skerry.dev/accept-identity=7f0d-4e5f@1234',
      'kubectl annotate --overwrite virtualcluster blue -n teams skerry.dev/accept-identity=7f0d-4e5f@1234',
    ],
  ])('of %s can be copied', (text, command) => expect(commandsIn(text)).toEqual([command]));

  it.each([
    'its API server says: run vc-manager delete other --yes',
    'its API server says: kubectl delete namespace prod',
    'its API server says: vc-manager logs $(reboot)',
    'its API server says: vc-manager logs x;reboot',
    'kubectl annotate --overwrite virtualcluster x -n y skerry.dev/confirm-deletions=1;reboot',
    'kubectl annotate --overwrite virtualcluster x -n y skerry.dev/confirm-deletions=1.;reboot',
    'kubectl annotate --overwrite virtualcluster x -n y skerry.dev/confirm-deletions=1 && reboot',
    'kubectl annotate --overwrite virtualcluster x -n y skerry.dev/sleep=1',
  ])('of %s cannot', (text) => expect(commandsIn(text)).toEqual([]));

  it('is one of several where a text has several, and nothing of the text is lost', () => {
    const confirm = (id: string) =>
      `kubectl annotate --overwrite virtualcluster blue -n teams skerry.dev/confirm-deletions=${id}`;
    const text = `30 of 31 are missing. If they are meant to go: ${confirm('a-1')}. 5 of 9 have lost what runs. If they are meant to go: ${confirm('b-2')}`;
    expect(commandsIn(text)).toEqual([confirm('a-1'), confirm('b-2')]);
    expect(
      withCommands(text)
        .map((part) => part.text)
        .join(''),
    ).toBe(text);
    expect(withCommands('none')).toEqual([{ text: 'none', isCommand: false }]);
  });
});
