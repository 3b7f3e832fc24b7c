/* Lesson 7: the checks of the learner's hostfile (7.a) and of the learner's job script (7.b). Included by lesson_7.h.
 */
#ifndef COURSE_LESSON_7_FILES_H
#define COURSE_LESSON_7_FILES_H

#include "course.h"

#define LESSON_7_LINE 300

/* Copies the first line that a command writes, with stderr, and that has `part`, to line[size]. False: there is none.
 */
static inline bool lesson_7_says(const char *command, const char *part, char *line, size_t size)
{
    FILE *pipe = popen(command, "r");
    char text[LESSON_7_LINE];
    bool found = false;
    while (pipe && fgets(text, sizeof text, pipe)) {
        if (found || !strstr(text, part)) continue;
        found = true;
        text[strcspn(text, "\n")] = '\0';
        snprintf(line, size, "%s", text);
    }
    if (pipe) pclose(pipe);
    return found;
}

/* ------------------------------------------------------------------------------------------ 7.a the hostfile */

#define LESSON_7_RANKS 8

/* The hosts of a hostfile that kolorun has accepted: the host of each rank, and the name that ssh logs in with. */
typedef struct lesson_7_placement {
    int ranks, lines;
    char host[LESSON_7_RANKS][64], user[LESSON_7_RANKS][64];
} lesson_7_placement;

/* Ranks fill the slots of a host before those of the next line. */
static inline void lesson_7_add_line(lesson_7_placement *p, char *line)
{
    line[strcspn(line, "#\n")] = '\0';
    char *rest = NULL, *name = strtok_r(line, " \t\r", &rest), *word;
    int slots = 1;
    if (!name) return;
    char *colon = strchr(name, ':'), *at = strchr(name, '@');
    if (colon) slots = atoi(colon + 1), *colon = '\0';
    while ((word = strtok_r(NULL, " \t\r", &rest)))
        if (!strncmp(word, "slots=", 6)) slots = atoi(word + 6);
    p->lines++;
    for (int i = 0; i < slots; i++, p->ranks++) {
        if (p->ranks >= LESSON_7_RANKS) continue;
        snprintf(p->host[p->ranks], sizeof p->host[0], "%s", at ? at + 1 : name);
        snprintf(p->user[p->ranks], sizeof p->user[0], "%.*s", at ? (int)(at - name) : 0, name);
    }
}

static inline bool lesson_7_read_hosts(const char *path, lesson_7_placement *p)
{
    char line[LESSON_7_LINE];
    FILE *file = fopen(path, "r");
    *p = (lesson_7_placement){0};
    while (file && fgets(line, sizeof line, file)) lesson_7_add_line(p, line);
    if (file) fclose(file);
    return file != NULL;
}

/* The name of the mistake for which kolorun refuses a hostfile: "...: wanted NAME slots=N, got 'slot=4'". */
static inline const char *lesson_7_why_refused(const char *sentence)
{
    const char *got = strstr(sentence, "got '") ? strstr(sentence, "got '") + 5 : "";
    size_t digits = strspn(got, "0123456789");
    if (strstr(sentence, "got none")) return "The file has no host yet. It needs a line for each host.";
    if (strchr(got, ',')) return "A comma separates hosts behind -H. A hostfile has a line for each host instead.";
    if (!strncmp(got, "slot=", 5)) return "The word is slots, with an s, for one slot, too.";
    if (digits && got[digits] == '\'') return "A number alone has no meaning there: write slots= before it.";
    return "A line has one host: its name, then slots=N, and nothing else.";
}

/* Prints where each rank lands. */
static inline void lesson_7_print_placement(const lesson_7_placement *p)
{
    for (int rank = 0, local = 0; rank < p->ranks && rank < LESSON_7_RANKS; rank++) {
        local = rank && !strcmp(p->host[rank], p->host[rank - 1]) ? local + 1 : 0;
        printf("rank %d: host %s, local rank %d%s%s\n", rank, p->host[rank], local,
               *p->user[rank] ? ", by ssh as " : "", p->user[rank]);
    }
}

static inline bool lesson_7_check_placement(const lesson_7_placement *p)
{
    static const char *const wanted[LESSON_7_RANKS] = {"ada", "ada", "ada", "ada", "bob", "bob", "eva", "eva"};
    if (p->ranks == p->lines && p->ranks < LESSON_7_RANKS)
        return course_check("7.a", false, "Expected 8 slots, got %d: a host without slots= has one slot.", p->ranks);
    if (p->ranks != LESSON_7_RANKS)
        return course_check("7.a", false, "Expected 8 slots in all, one for each rank, got %d.", p->ranks);
    for (int rank = 0; rank < LESSON_7_RANKS; rank++) {
        if (!strcmp(p->host[rank], wanted[rank])) continue;
        return course_check("7.a", false,
                            "Expected rank %d on %s, got %s: ranks fill the first line's host, then the second's.",
                            rank, wanted[rank], p->host[rank]);
    }
    for (int rank = 0; rank < LESSON_7_RANKS; rank++) {
        const char *user = rank == 4 || rank == 5 ? "learner" : "";
        if (!strcmp(p->user[rank], user)) continue;
        return course_check("7.a", false, "Expected %s as the name that ssh uses on %s, got %s: write user@host there.",
                            *user ? user : "none", wanted[rank], *p->user[rank] ? p->user[rank] : "none");
    }
    return course_check("7.a", true, " ");
}

/* Lets kolorun read the file, for more ranks than it can have, so that kolorun ends before it connects to a host. */
static inline bool lesson_7_check_hostfile(const char *path)
{
    char command[LESSON_7_LINE], said[LESSON_7_LINE];
    lesson_7_placement placement;
    if (!lesson_7_read_hosts(path, &placement))
        return course_check("7.a", false, "There is no file %s yet. Run the cell that writes it.", path);
    snprintf(command, sizeof command, "kolorun --hostfile '%s' -np 1000000 true 2>&1", path);
    if (!lesson_7_says(command, "kolorun: ", said, sizeof said))
        return course_check("7.a", false, "kolorun said nothing about %s: is kolorun built?", path);
    if (!strstr(said, "hosts offer")) {
        printf("kolorun refuses the file. %s\n", said);
        return course_check("7.a", false, "%s", lesson_7_why_refused(said));
    }
    lesson_7_print_placement(&placement);
    return lesson_7_check_placement(&placement);
}

/* ------------------------------------------------------------------------------------------ 7.b the job script */

/* What a job script asks SLURM for, and how it starts its ranks. */
typedef struct lesson_7_job {
    bool shebang, late, spaced, exec; /* late: an #SBATCH behind a command; spaced: "# SBATCH" */
    char nodes[32], per_node[32], tasks[32], time[32], signal[32], launch[LESSON_7_LINE];
} lesson_7_job;

/* Takes the value of "--name=value", "--name value" or "-xvalue", if `line` begins with it. */
static inline void lesson_7_take(const char *line, const char *name, const char *letter, char value[32])
{
    size_t length = strlen(name);
    const char *at = NULL;
    if (!strncmp(line, name, length) && line[length] && strchr("= \t", line[length])) at = line + length + 1;
    else if (*letter && !strncmp(line, letter, 2)) at = line + 2;
    if (at) snprintf(value, 32, "%.*s", (int)strcspn(at + strspn(at, " \t"), " \t#"), at + strspn(at, " \t"));
}

/* Takes the options of a line, from the text behind #SBATCH: one or more, up to a comment. */
static inline void lesson_7_take_options(lesson_7_job *job, const char *line)
{
    for (; *line && *line != '#'; line += strcspn(line, " \t"), line += strspn(line, " \t")) {
        lesson_7_take(line, "--nodes", "-N", job->nodes);
        lesson_7_take(line, "--ntasks-per-node", "", job->per_node);
        lesson_7_take(line, "--ntasks", "-n", job->tasks);
        lesson_7_take(line, "--time", "-t", job->time);
        lesson_7_take(line, "--signal", "", job->signal);
    }
}

/* Of the commands the one counts that starts the ranks, or names the program. */
static inline void lesson_7_take_command(lesson_7_job *job, const char *line)
{
    bool starts = strstr(line, "kolorun") || strstr(line, "srun") || strstr(line, "mpirun");
    if (!starts && (*job->launch || !strstr(line, "cifar10_slurm"))) return;
    snprintf(job->launch, sizeof job->launch, "%s", line);
    job->exec = !strncmp(line, "exec ", 5);
}

/* Reads a line without its end, and appends the lines with which a backslash at the end continues it. */
static inline bool lesson_7_read_line(FILE *file, char text[LESSON_7_LINE])
{
    size_t length = 0;
    while (file && length + 1 < LESSON_7_LINE && fgets(text + length, (int)(LESSON_7_LINE - length), file)) {
        length = strcspn(text, "\n");
        text[length] = '\0';
        if (!length || *text == '#' || text[length - 1] != '\\') return true;
        text[length - 1] = ' ';
    }
    return length > 0;
}

static inline bool lesson_7_read_job(const char *path, lesson_7_job *job)
{
    char text[LESSON_7_LINE];
    FILE *file = fopen(path, "r");
    bool commands = false;
    *job = (lesson_7_job){0};
    for (int number = 0; lesson_7_read_line(file, text); number++) {
        const char *line = text + strspn(text, " \t");
        if (number == 0) job->shebang = !strncmp(text, "#!/", 3);
        if (!strncmp(text, "#SBATCH", 7) && commands) job->late = true;
        else if (!strncmp(text, "#SBATCH", 7)) lesson_7_take_options(job, text + 7 + strspn(text + 7, " \t"));
        else if (*line == '#' && strstr(line, "SBATCH")) job->spaced = true;
        else if (*line && *line != '#') commands = true, lesson_7_take_command(job, line);
    }
    if (file) fclose(file);
    return file != NULL;
}

/* Seconds of SLURM's --time: minutes, minutes:seconds, hours:minutes:seconds, and behind "days-" hours, hours:minutes
 * or hours:minutes:seconds; 0 for anything else. */
static inline long lesson_7_seconds(const char *time)
{
    long a = 0, b = 0, c = 0, days = 0;
    int used = 0, count = sscanf(time, "%ld:%ld:%ld", &a, &b, &c);
    if (sscanf(time, "%ld-%ld:%ld:%ld", &days, &a, &b, &c) >= 2) return ((24 * days + a) * 60 + b) * 60 + c;
    if (count == 3 && sscanf(time, "%ld:%ld:%ld%n", &a, &b, &c, &used) == 3 && !time[used])
        return 3600 * a + 60 * b + c;
    if (count == 2 && sscanf(time, "%ld:%ld%n", &a, &b, &used) == 2 && !time[used]) return 60 * a + b;
    if (count == 1 && sscanf(time, "%ld%n", &a, &used) == 1 && !time[used]) return 60 * a;
    return 0;
}

/* The number behind an option of the launching line, or 0. */
static inline long lesson_7_number(const char *line, const char *option)
{
    const char *at = strstr(line, option);
    return at ? strtol(at + strlen(option) + strspn(at + strlen(option), "= \t"), NULL, 10) : 0;
}

/* The mistakes in what the script asks for: NULL if there is none. */
static inline const char *lesson_7_wrong_request(const lesson_7_job *job)
{
    if (!job->shebang) return "the first line must name the shell: #!/bin/bash.";
    if (job->spaced)
        return "a line begins with # SBATCH: to SLURM that is a comment. The word is #SBATCH, in one piece.";
    if (job->late) return "an #SBATCH line stands behind a command. SLURM stops reading them at the first command.";
    if (*job->nodes == '=' || *job->per_node == '=' || *job->time == '=' || *job->signal == '=')
        return "an option has spaces around its =. SLURM reads --nodes=4 or --nodes 4.";
    if (!*job->nodes) return "nothing asks for nodes: --nodes=4, without spaces around the =.";
    if (strcmp(job->nodes, "4")) return "expected 4 nodes.";
    if (!*job->per_node && *job->tasks)
        return "--ntasks=32 lets SLURM share 32 tasks among the nodes unevenly. Fix the tasks of each node.";
    if (!*job->per_node) return "nothing says how many tasks each node gets; the default is one.";
    if (!strcmp(job->per_node, "32")) return "32 tasks per node on 4 nodes are 128 ranks. Each node has 8 devices.";
    if (strcmp(job->per_node, "8")) return "expected 8 tasks per node, one for each device.";
    if (!*job->time) return "nothing limits the time: --time.";
    if (lesson_7_seconds(job->time) == 30)
        return "--time=0:30 and --time=00:30 are 30 seconds: two numbers are minutes:seconds.";
    if (lesson_7_seconds(job->time) != 1800) return "expected a limit of 30 minutes.";
    return NULL;
}

/* The mistakes in the signal before the end. The signal must reach the program that starts the ranks. */
static inline const char *lesson_7_wrong_signal(const lesson_7_job *job, bool srun)
{
    const char *at = strchr(job->signal, '@');
    long before = at ? strtol(at + 1, NULL, 10) : 0, stop = lesson_7_number(job->launch, "--stop-timeout");
    bool to_shell = !strncmp(job->signal, "B:", 2), term = strstr(job->signal, "TERM") || strstr(job->signal, "15");
    if (!*job->signal)
        return "no signal is asked for: without --signal, SLURM ends the job at its limit without warning time.";
    if (!term || before != 120) return "expected the signal TERM, 120 seconds before the limit.";
    if (srun && to_shell && !job->exec)
        return "B: sends the signal to the script's shell alone, and srun never gets it. Leave B: out.";
    if (srun) return NULL;
    if (!to_shell)
        return "without B: SLURM signals only what srun has started. kolorun runs in the script, and is not told. "
               "Write B:TERM@120.";
    if (!job->exec)
        return "the signal reaches the shell, which waits for kolorun and passes nothing on. Let exec replace the "
               "shell by kolorun.";
    if (!stop)
        return "kolorun kills the ranks 30 s after the signal unless --stop-timeout says otherwise. Expected 90.";
    if (stop >= before)
        return "the ranks get as long as SLURM waits, or longer: SLURM kills them first. Expected --stop-timeout 90.";
    return stop == 90 ? NULL : "expected --stop-timeout 90.";
}

/* The mistakes in the line that starts the ranks. */
static inline const char *lesson_7_wrong_launch(const lesson_7_job *job)
{
    bool srun = strstr(job->launch, "srun") != NULL, kolorun = strstr(job->launch, "kolorun") != NULL;
    long ranks = lesson_7_number(job->launch, "-np");
    if (!*job->launch) return "no line starts cifar10_slurm.";
    if (strstr(job->launch, "mpirun"))
        return "expected kolorun or srun. kolorun calls mpirun itself, and watches over the ranks.";
    if (!srun && !kolorun)
        return "the program is started once, on the first node: a batch script runs there alone. kolorun or srun "
               "starts 32.";
    if (srun && kolorun) return "srun starts kolorun 32 times, and each would start all ranks. One of them is enough.";
    if (!strstr(job->launch, "cifar10_slurm")) return "expected cifar10_slurm as the program.";
    if (kolorun && ranks && ranks != 32)
        return "-np asks for fewer or more ranks than the allocation has tasks: 4 x 8. Without -np, kolorun takes them "
               "all.";
    if (srun && !strstr(job->launch, "--mpi=pmi") && !strstr(job->launch, "--mpi pmi"))
        return "srun alone starts 32 programs that do not find each other. Add --mpi=pmix.";
    if (!strstr(job->launch, "--checkpoint")) return "the program saves nothing before its end. Add --checkpoint FILE.";
    return lesson_7_wrong_signal(job, srun);
}

static inline bool lesson_7_check_job(const char *path)
{
    lesson_7_job job;
    char command[LESSON_7_LINE], said[LESSON_7_LINE];
    if (!lesson_7_read_job(path, &job))
        return course_check("7.b", false, "There is no file %s yet. Run the cell that writes it.", path);
    snprintf(command, sizeof command, "bash -n '%s' 2>&1", path);
    if (lesson_7_says(command, "", said, sizeof said))
        return course_check("7.b", false, "bash cannot read the script: %s", said);
    if (!*job.launch && !*job.nodes) return course_check("7.b", false, "Not done yet: the script is empty.");
    printf("nodes %s, tasks per node %s, time %s, signal %s\nranks started by: %s\n", *job.nodes ? job.nodes : "-",
           *job.per_node ? job.per_node : "-", *job.time ? job.time : "-", *job.signal ? job.signal : "-",
           *job.launch ? job.launch : "-");
    const char *wrong = lesson_7_wrong_request(&job);
    if (!wrong) wrong = lesson_7_wrong_launch(&job);
    return course_check("7.b", !wrong, "Look here: %s", wrong ? wrong : "");
}

#endif
