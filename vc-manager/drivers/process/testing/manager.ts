import { ProcessDriver } from '../process-driver.ts';
import { fakeComponent } from './fake-component.ts';

// A manager that starts one component and then waits to be killed.
const [root = '', port = ''] = process.argv.slice(2);
const driver = new ProcessDriver({ root, binaries: { ensure: () => Promise.reject(new Error()) } });
await driver.ensure(
  { id: 'blue', labels: {}, components: [fakeComponent('server', Number(port))] },
  { signal: new AbortController().signal },
);
console.log('ready');
setInterval(() => undefined, 1000);
