/* For test_download.py: download_program URL PATH [SHA256 [PATIENCE]]. */
#include <kolo.h>

#include <signal.h>
#include <stdlib.h>

static void stop(int signal)
{
    (void)signal;
    kolo_request_stop();
}

int main(int argc, char **argv)
{
    signal(SIGINT, stop);
    kolo_download(argv[1], argv[2], .sha256 = argc > 3 && *argv[3] ? argv[3] : NULL,
                  .patience = argc > 4 ? atoi(argv[4]) : 0, .verbose = 1);
    return kolo_finish();
}
