/* Tells as whom it runs: its set-user-ID bit makes a difference only where privileges may be gained. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
  printf("Effective uid: %d\n", (int)geteuid());
  return 0;
}
