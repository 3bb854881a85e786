/* The beginning and the end of a program, and what a schedule cannot show. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_trace.h"

/* An empty variable is as if it were not set. */
static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Whether it is the second of two words; the first is the default. */
static bool is_second(const char *name, const char *first, const char *second) {
    const char *text = variable(name);
    if (text && strcmp(text, first) != 0 && strcmp(text, second) != 0)
        trace_fail("%s=%s is neither %s nor %s", name, text, first, second);
    return text && strcmp(text, second) == 0;
}

static void read_options(struct mpi_trace *t) {
    const char *scale = variable("OPENSPIN_GOAL_SCALE"),
               *shortest = variable("OPENSPIN_GOAL_SHORTEST");
    char *end = NULL;
    t->scale = scale ? strtod(scale, &end) : 1;
    if (scale && (end == scale || *end || !(t->scale >= 0 && t->scale <= 1e9)))
        trace_fail("OPENSPIN_GOAL_SCALE=%s is not a factor from 0 to 1e9", scale);
    t->shortest_ns = shortest ? strtoull(shortest, &end, 10) : 0;
    if (shortest && (*end || *shortest < '0' || *shortest > '9'))
        trace_fail("OPENSPIN_GOAL_SHORTEST=%s is not a number of nanoseconds", shortest);
    t->wall = is_second("OPENSPIN_GOAL_CLOCK", "cpu", "wall");
    t->wildcards = is_second("OPENSPIN_GOAL_WILDCARDS", "resolve", "keep");
}

static void begin(void) {
    struct mpi_trace *t = trace_of_process();
    const char *path = variable("OPENSPIN_GOAL");
    if (!path)
        return;
    t->path = strdup(path);
    PMPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &t->ranks);
    t->on = t->path != NULL;
    trace_comm_begin();
    read_options(t);
    trace_leave();
}

int MPI_Init(int *argc, char ***argv) {
    int code = PMPI_Init(argc, argv);
    if (code == MPI_SUCCESS)
        begin();
    return code;
}

/* Several threads in MPI at a time are refused before they come. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    bool traced = variable("OPENSPIN_GOAL") != NULL;
    if (traced && required > MPI_THREAD_SERIALIZED)
        required = MPI_THREAD_SERIALIZED;
    int code = PMPI_Init_thread(argc, argv, required, provided);
    if (traced && *provided > MPI_THREAD_SERIALIZED)
        *provided = MPI_THREAD_SERIALIZED;
    if (code == MPI_SUCCESS)
        begin();
    return code;
}

int MPI_Finalize(void) {
    trace_enter();
    if (trace_of_process()->path)
        trace_write();
    return PMPI_Finalize();
}

#define OPEN(...) __VA_ARGS__
#define NOT_TRACED(Name, PARAMETERS, ARGUMENTS, what)                                              \
    int MPI_##Name(OPEN PARAMETERS) {                                                              \
        trace_fail("the program uses " what " (MPI_" #Name "), which a schedule cannot show");     \
        return PMPI_##Name(OPEN ARGUMENTS);                                                        \
    }
NOT_TRACED(Win_create,
           (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),
           (base, size, unit, info, comm, win), "one-sided communication")
NOT_TRACED(Win_allocate,
           (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
           (size, unit, info, comm, base, win), "one-sided communication")
NOT_TRACED(Win_allocate_shared,
           (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),
           (size, unit, info, comm, base, win), "shared windows")
NOT_TRACED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win), (info, comm, win),
           "one-sided communication")
NOT_TRACED(Comm_spawn,
           (const char *command, char **argv, int most, MPI_Info info, int root, MPI_Comm comm,
            MPI_Comm *made, int *codes),
           (command, argv, most, info, root, comm, made, codes), "processes that it starts")
