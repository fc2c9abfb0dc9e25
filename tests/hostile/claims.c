// Listens, and has the kernel say that its arguments are a terabyte which was never touched: no right is needed for it.
#define _GNU_SOURCE
#include <linux/prctl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned long field(const char *stat, int number)
{
	const char *at = strrchr(stat, ')') + 1;
	unsigned long value = 0;

	for (int n = 3; n < number; n++)
		at = strchr(at + 1, ' ');
	sscanf(at, "%lu", &value);
	return value;
}

int main(void)
{
	static char stat[4096];
	unsigned long bytes = 1UL << 40;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct prctl_mm_map map = {0};
	FILE *file = fopen("/proc/self/stat", "r");
	char *claimed;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fread(stat, 1, sizeof(stat) - 1, file);
	claimed = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	map.start_code = field(stat, 26);
	map.end_code = field(stat, 27);
	map.start_stack = field(stat, 28);
	map.start_data = field(stat, 45);
	map.end_data = field(stat, 46);
	map.start_brk = field(stat, 47);
	map.brk = (unsigned long)sbrk(0);
	map.arg_start = (unsigned long)claimed;
	map.arg_end = (unsigned long)claimed + bytes;
	map.env_start = field(stat, 50);
	map.env_end = field(stat, 51);
	map.exe_fd = -1;
	if (claimed == MAP_FAILED || prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0))
		puts("refused");
	else if (bind(listener, (void *)&any, sizeof(any)) || listen(listener, 5))
		puts("cannot listen");
	else
		puts("claimed");
	fflush(stdout);
	for (;;)
		pause();
}
