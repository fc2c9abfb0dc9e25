// Makes so many network namespaces in a user namespace of its own, each with a listener, and keeps them.
#define _GNU_SOURCE
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int listens(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int listener;

	if (unshare(CLONE_NEWNET))
		return 0;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	return !ioctl(listener, SIOCSIFFLAGS, &lo) && !bind(listener, (void *)&at, sizeof(at)) &&
	       !listen(listener, 5);
}

int main(int argc, char **argv)
{
	int made = 0, wanted = atoi(argv[argc - 1]);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWUSER))
		return 1;
	for (int i = 0; i < wanted; i++) {
		char done = 'n';
		int ends[2];

		if (pipe(ends))
			return 1;
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			done = listens() ? 'y' : 'n';
			write(ends[1], &done, 1);
			for (;;)
				pause();
		}
		read(ends[0], &done, 1);
		close(ends[0]);
		close(ends[1]);
		made += done == 'y';
	}
	printf("made %d\n", made);
	fflush(stdout);
	for (;;)
		pause();
}
