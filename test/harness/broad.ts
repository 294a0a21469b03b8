/** Whether what is broad rather than deep runs too, as in `npm run test:all`; docs/testing.md lists it, with what proves its rules otherwise. */
export const isBroad = Boolean(process.env['SKERRY_TEST_ALL']);
