/* Makes code and runs it until it is killed, and tells of it in /tmp/perf-PID.map: in many ways.
 * Usage: jit MODE [FILE]. Prints the map's path when all is in place. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argv[1], *file = argc > 2 ? argv[2] : "";
	unsigned char *code;
	char path[64];
	FILE *map;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(code == MAP_FAILED, "mmap");
#ifdef __x86_64__
	memcpy(code, "\x55\x48\x89\xe5\xeb\xfe", 6); /* a frame, and a jump to itself */
#else
	memcpy(code, "\x00\x00\x00\x14", 4);
#endif
	__builtin___clear_cache((char *)code, (char *)code + 64);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	if (!strcmp(mode, "mount")) {
		/* A /tmp of our own: FILE in place of the map. */
		must(unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
		must(mount("none", "/", 0, MS_REC | MS_PRIVATE, 0), "private");
		must(close(open(path, O_CREAT | O_WRONLY, 0644)), "create");
		must(mount(file, path, 0, MS_BIND, 0), "bind");
	} else if (!strcmp(mode, "fifo")) {
		must(mkfifo(path, 0666), "mkfifo");
	} else if (!strcmp(mode, "symlink")) {
		must(symlink(file, path), "symlink");
	} else {
		map = fopen(path, "w");
		must(!map, "fopen");
		if (!strcmp(mode, "big"))
			for (long i = 1; i <= 4000000; i++)
				fprintf(map, "%lx 10 fn%ld_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
					i * 16, i);
		if (!strcmp(mode, "long")) {
			fprintf(map, "%lx 1000 ", (long)code);
			for (long i = 0; i < 100000; i++)
				fputs("long_name_", map);
			fputc('\n', map);
		} else {
			fprintf(map, "%lx 1000 LazyCompile:~made_here \x1b[31m<script>\n", (long)code);
		}
		must(fclose(map), "fclose");
		if (!strcmp(mode, "lease")) {
			/* Who opens it waits until we give it up, which we do not. */
			int fd = open(path, O_RDWR);

			signal(SIGIO, SIG_IGN);
			must(fcntl(fd, F_SETLEASE, F_WRLCK), "lease");
		}
	}
	printf("%s\n", path);
	fflush(stdout);
	((void (*)(void))code)();
}
