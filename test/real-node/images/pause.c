/* The process that holds a pod's (and here also a node's) namespaces: waits, and takes care of orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

static void leave(int number) {
  (void)number;
  _exit(0);
}

int main(void) {
  struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  struct sigaction on_end = {.sa_handler = leave};
  sigaction(SIGCHLD, &on_child, 0);
  sigaction(SIGTERM, &on_end, 0);
  sigaction(SIGINT, &on_end, 0);
  reap(0);
  for (;;) pause();
}
