// A crowd of one kind: listeners, threads that change their names, or processes that end at once.
// Usage: crowd listeners|names|forks N. Prints a line when it is there; forks are so many a second.
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ports from here on, on one address: below those that the kernel gives out. */
#define FIRST_PORT 12000
#define PORTS 20000

static void stay(const char *there)
{
	puts(there);
	fflush(stdout);
	for (;;)
		pause();
}

static int listens(long i)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(FIRST_PORT + i % PORTS)};
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ((i / PORTS + 1) << 16));
	return listener >= 0 && !bind(listener, (void *)&at, sizeof(at)) && !listen(listener, 1);
}

/* A process holds as many as its limit allows; its child goes on. */
static void listeners(long wanted)
{
	struct rlimit files;
	long made = 0;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (;;) {
		while (made < wanted && listens(made))
			made++;
		if (made == wanted)
			stay("listening");
		if (errno != EMFILE) {
			perror("listen");
			exit(1);
		}
		if (fork())
			for (;;)
				pause();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int fd = 3; fd < (int)files.rlim_max; fd++)
			close(fd);
	}
}

static void *renames(void *number)
{
	char name[16];

	for (unsigned int i = 0;; i++) {
		snprintf(name, sizeof(name), "%lx-%x", (long)number, i);
		prctl(PR_SET_NAME, name);
		poll(0, 0, 11);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(kind, "listeners"))
		listeners(n);
	if (!strcmp(kind, "names")) {
		for (long i = 0; i < n; i++)
			pthread_create(&thread, NULL, renames, (void *)i);
		stay("renaming");
	}
	if (strcmp(kind, "forks") || n < 1)
		return 2;
	puts("forking");
	fflush(stdout);
	for (;;) {
		if (!fork())
			_exit(0);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		usleep(1000000 / n);
	}
}
