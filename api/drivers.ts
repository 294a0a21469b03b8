/** What can run control planes: processes of the manager's machine, containers, or pods of the super cluster. */
export const driverNames = ['process', 'compose', 'kubernetes'] as const;

export type DriverName = (typeof driverNames)[number];
