/* kolo-data: fetches the published data sets into the folders in which the library looks for them. */
#include <kolo.h>

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <spawn.h>
#include <unistd.h>

#define FILES_MAX 4

typedef struct published_file {
    const char *name, *sha256; /* sha256 NULL: the publisher states none */
    double megabytes;
} published_file;

typedef struct published_set {
    const char *name, *folder, *from, *says;
    published_file files[FILES_MAX];
    const char *archive; /* the wanted folder in the archive, which is the set's only file; NULL: no archive */
    bool by_name_only;   /* fetched only if it is named */
} published_set;

static const published_set sets[] = {
    {"mnist",
     "mnist",
     "https://ossci-datasets.s3.amazonaws.com/mnist/",
     "70,000 handwritten digits (LeCun, Cortes, Burges)",
     {{"train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9.9},
      {"train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 0.03},
      {"t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1.6},
      {"t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 0.01}},
     NULL,
     false},
    {"fashion-mnist",
     "fashion-mnist",
     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
     "70,000 pieces of clothing (Zalando Research)",
     {{"train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26.4},
      {"train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 0.03},
      {"t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4.4},
      {"t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 0.01}},
     NULL,
     false},
    {"cifar-10",
     "cifar-10",
     "https://www.cs.toronto.edu/~kriz/",
     "60,000 pictures of ten classes (Krizhevsky)",
     {{"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170.1}},
     "cifar-10-batches-bin",
     false},
    {"higgs",
     "higgs",
     "https://opendata.cern.ch/record/328/files/",
     "ATLAS's challenge of 2014, 818,238 events",
     {{"atlas-higgs-challenge-2014-v2.csv.gz", NULL, 65}},
     NULL,
     false},
    {"higgs-uci",
     "higgs",
     "https://archive.ics.uci.edu/ml/machine-learning-databases/00280/",
     "UCI's 11 million events, in place of higgs: the folder holds one of the two",
     {{"HIGGS.csv.gz", "ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698", 2816.4}},
     NULL,
     true},
};
enum { SETS = sizeof sets / sizeof *sets };

typedef struct options {
    const char *folder, *mirror;
    bool chosen[SETS], any;
} options;

/* ------------------------------------------------------------------------------------------ folders */

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "kolo-data: %s: %s\n", what, why);
    return 1;
}

/* Makes a folder and those above it. */
static int make_folders(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s/", path) >= (int)sizeof part) return fail(path, "its name is too long");
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return fail(part, strerror(errno));
        *slash = '/';
    }
    return 0;
}

/* The folder in which the library looks: KOLO_DATA, or else the one that kolo_data_cache() finds. */
static int default_folder(char folder[PATH_MAX])
{
    const char *data = getenv("KOLO_DATA"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (data && *data) length = snprintf(folder, PATH_MAX, "%s", data);
    else if (cache && *cache == '/') length = snprintf(folder, PATH_MAX, "%s/kolo", cache);
    else if (home && *home == '/') length = snprintf(folder, PATH_MAX, "%s/.cache/kolo", home);
    else return fail("wanted KOLO_DATA or HOME", "neither names a folder");
    return length < PATH_MAX ? 0 : fail("the data's folder", "its name is too long");
}

/* ------------------------------------------------------------------------------------------ archives */

static int run_tar(const char *archive, const char *folder)
{
    extern char **environ;
    pid_t child;
    int status;
    char *const words[] = {"tar", "-xzf", (char *)archive, "-C", (char *)folder, "--no-same-owner", NULL};
    int error = posix_spawnp(&child, "tar", NULL, NULL, words, environ);
    if (error) return fail("tar", strerror(error));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return fail("tar", strerror(errno));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : fail(archive, "tar could not unpack it");
}

/* Unpacks an archive beside the target and then renames it, so that an existing folder is complete. */
static int unpack(const published_set *set, const char *archive, const char *home)
{
    char beside[PATH_MAX], inner[2 * PATH_MAX], target[PATH_MAX];
    if (snprintf(beside, sizeof beside, "%s/.%s-XXXXXX", home, set->folder) >= (int)sizeof beside ||
        snprintf(target, sizeof target, "%s/%s", home, set->folder) >= (int)sizeof target)
        return fail(home, "its name is too long");
    if (!mkdtemp(beside)) return fail(beside, strerror(errno));
    int failed = run_tar(archive, beside);
    snprintf(inner, sizeof inner, "%s/%s", beside, set->archive);
    if (!failed && rename(inner, target) != 0) failed = fail(target, strerror(errno));
    if (!failed) unlink(archive);
    if (rmdir(beside) != 0) fail(beside, "what was unpacked there is of no use: remove it");
    return failed;
}

/* ------------------------------------------------------------------------------------------ sets */

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static int fetch_file(const published_set *set, const published_file *file, const options *o, const char *path)
{
    char url[2 * PATH_MAX];
    snprintf(url, sizeof url, "%s%s%s%s", o->mirror ? o->mirror : set->from, o->mirror ? set->folder : "",
             o->mirror ? "/" : "", file->name);
    if (!is_there(path)) printf("%s (%.*f MB)\n", url, file->megabytes < 1 ? 2 : 0, file->megabytes);
    fflush(stdout);
    kolo_download_args args = {.url = url, .path = path, .sha256 = file->sha256, .verbose = 1};
    if (kolo_download_at(&args, (kolo_here){0}) != KOLO_OK) return 1; /* {0}: errors name no place in this file */
    if (!file->sha256) printf("  its publisher names no checksum: what came is taken as it is\n");
    return 0;
}

static int fetch_files(const published_set *set, const options *o)
{
    char folder[PATH_MAX], path[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s/%s", PATH_MAX - 64, o->folder, set->folder);
    if (set->archive && is_there(folder)) {
        printf("%s: there already\n", folder);
        return 0;
    }
    if (!set->archive && make_folders(folder)) return 1;
    for (const published_file *file = set->files; file < set->files + FILES_MAX && file->name; file++) {
        snprintf(path, sizeof path, "%s/%s", set->archive ? o->folder : folder, file->name);
        if (fetch_file(set, file, o, path)) {
            rmdir(folder); /* removes it only if it is empty */
            return 1;
        }
    }
    if (set->archive && unpack(set, path, o->folder)) return 1;
    printf("%s: %s\n", folder, set->says);
    return 0;
}

/* Only one process at a time fills a folder; the next one finds the files there, with archives unpacked. */
static int fetch_set(const published_set *set, const options *o)
{
    if (make_folders(o->folder)) return 1;
    int fd = open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) return fail(o->folder, strerror(errno));
    int failed = fetch_files(set, o);
    close(fd);
    return failed;
}

/* ------------------------------------------------------------------------------------------ the command line */

static error_t parse(int key, char *argument, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case 'd': o->folder = argument; return 0;
    case 'm': o->mirror = argument; return 0;
    case ARGP_KEY_ARG:
        for (int i = 0; i < SETS; i++)
            if (strcmp(sets[i].name, argument) == 0) {
                o->chosen[i] = o->any = true;
                return 0;
            }
        argp_failure(state, 2, 0, "wanted mnist, fashion-mnist, cifar-10, higgs or higgs-uci, got \"%s\"", argument);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option list[] = {
        {"data", 'd', "FOLDER", 0, "where to (default: KOLO_DATA, or else ~/.cache/kolo, where it is found too)", 0},
        {"mirror", 'm', "URL", 0, "fetch URLmnist/train-images-idx3-ubyte.gz and so on instead", 0},
        {0},
    };
    static const struct argp argp = {
        list,
        parse,
        "[SET ...]",
        "Fetches published data sets: mnist, fashion-mnist, cifar-10, higgs (all four where"
        " none is named), and higgs-uci, which is 2.8 GB.\v"
        "What is there already is kept, what broke off goes on, and checksums are compared.",
        NULL,
        NULL,
        NULL};
    char folder[PATH_MAX];
    options o = {0};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (!o.folder && default_folder(folder)) return 1;
    if (!o.folder) o.folder = folder;
    int failed = 0;
    for (int i = 0; i < SETS; i++)
        if (o.any ? o.chosen[i] : !sets[i].by_name_only) failed |= fetch_set(&sets[i], &o);
    return failed;
}
