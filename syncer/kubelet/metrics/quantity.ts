export function cpuQuantity(nanoCores: number): string {
  return nanoCores <= 0 ? '0' : `${Math.round(nanoCores)}n`;
}

export function memoryQuantity(bytes: number): string {
  return bytes <= 0 ? '0' : `${Math.round(bytes / 1024)}Ki`;
}
