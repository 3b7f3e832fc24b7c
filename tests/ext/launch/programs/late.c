/* Preloaded: the processes of the last rank begin late, as on a busy machine: 2 s after the file LATE_AFTER is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void come_late(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (!rank || !size || atoi(rank) != atoi(size) - 1 || strcmp(program_invocation_short_name, "kolorun") != 0) return;
    while (access(getenv("LATE_AFTER"), F_OK) != 0) usleep(10000);
    sleep(2);
}
