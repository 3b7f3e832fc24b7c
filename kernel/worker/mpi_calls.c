/* MPI's functions as a cell calls them before MPI_Init: where a C program would be ended by MPI, MPI is started first,
 * for a world of one process. Each of these is a jump through a slot, which the first call fills with MPI's own
 * function; the arguments, whatever they are, stay where they are. Read first: mpi.c. */
#include "worker/mpi.h"

/* clang-format off */
#define MPI_CALLS(CALL)                                                                                               \
    CALL(Allgather) CALL(Allgatherv) CALL(Allreduce) CALL(Alltoall) CALL(Alltoallv) CALL(Barrier)         \
    CALL(Bcast) CALL(Bsend) CALL(Buffer_attach) CALL(Buffer_detach) CALL(Cart_coords) CALL(Cart_create)               \
    CALL(Cart_rank) CALL(Cart_shift) CALL(Cart_sub) CALL(Comm_compare) CALL(Comm_create) CALL(Comm_dup)               \
    CALL(Comm_free) CALL(Comm_get_name) CALL(Comm_get_parent) CALL(Comm_group) CALL(Comm_rank)                        \
    CALL(Comm_set_errhandler) CALL(Comm_set_name) CALL(Comm_size) CALL(Comm_spawn) CALL(Comm_split)                   \
    CALL(Comm_split_type) CALL(Dims_create) CALL(Error_class) CALL(Error_string) CALL(Exscan) CALL(File_open)         \
    CALL(Gather) CALL(Gatherv) CALL(Get_count) CALL(Get_processor_name) CALL(Graph_create) CALL(Group_incl)           \
    CALL(Group_excl) CALL(Group_rank) CALL(Group_size) CALL(Iallgather) CALL(Iallreduce) CALL(Ibarrier) CALL(Ibcast)  \
    CALL(Igather) CALL(Info_create) CALL(Iprobe) CALL(Irecv) CALL(Ireduce) CALL(Iscatter) CALL(Isend) CALL(Issend)    \
    CALL(Is_thread_main) CALL(Op_create) CALL(Probe) CALL(Query_thread) CALL(Recv) CALL(Reduce)                       \
    CALL(Reduce_scatter) CALL(Reduce_scatter_block) CALL(Rsend) CALL(Scan) CALL(Scatter) CALL(Scatterv) CALL(Send)    \
    CALL(Sendrecv) CALL(Sendrecv_replace) CALL(Ssend) CALL(Start) CALL(Test) CALL(Testall) CALL(Testany)              \
    CALL(Type_commit) CALL(Type_contiguous) CALL(Type_create_hvector) CALL(Type_create_resized)                       \
    CALL(Type_create_struct) CALL(Type_create_subarray) CALL(Type_get_extent) CALL(Type_indexed) CALL(Type_size)      \
    CALL(Type_vector) CALL(Wait) CALL(Waitall) CALL(Waitany) CALL(Win_allocate) CALL(Win_create)
/* clang-format on */

#if defined(__x86_64__)
/* Six registers hold arguments; with them and the slot's place the stack is aligned for the call. */
#define CALL(name)                                                                                                     \
    __asm__(".pushsection .bss\n .align 8\n .Lslot_" #name ": .skip 8\n .popsection\n"                                 \
            ".pushsection .rodata\n .Lname_" #name ": .asciz \"PMPI_" #name "\"\n .popsection\n"                       \
            ".pushsection .text\n .globl MPI_" #name "\n .type MPI_" #name ", @function\n"                             \
            "MPI_" #name ":\n .cfi_startproc\n"                                                                        \
            " movq .Lslot_" #name "(%rip), %rax\n testq %rax, %rax\n jne 1f\n"                                         \
            " pushq %rdi\n pushq %rsi\n pushq %rdx\n pushq %rcx\n pushq %r8\n pushq %r9\n subq $8, %rsp\n"             \
            " .cfi_adjust_cfa_offset 56\n"                                                                             \
            " leaq .Lname_" #name "(%rip), %rdi\n leaq .Lslot_" #name "(%rip), %rsi\n call mpi_find\n"                 \
            " addq $8, %rsp\n popq %r9\n popq %r8\n popq %rcx\n popq %rdx\n popq %rsi\n popq %rdi\n"                   \
            " .cfi_adjust_cfa_offset -56\n"                                                                            \
            "1: jmp *%rax\n .cfi_endproc\n .size MPI_" #name ", . - MPI_" #name "\n .popsection\n");
MPI_CALLS(CALL)
#elif defined(__aarch64__)
/* Eight registers hold arguments. */
#define CALL(name)                                                                                                     \
    __asm__(".pushsection .bss\n .balign 8\n .Lslot_" #name ": .skip 8\n .popsection\n"                                \
            ".pushsection .rodata\n .Lname_" #name ": .asciz \"PMPI_" #name "\"\n .popsection\n"                       \
            ".pushsection .text\n .balign 4\n .globl MPI_" #name "\n .type MPI_" #name ", @function\n"                 \
            "MPI_" #name ":\n .cfi_startproc\n"                                                                        \
            " adrp x16, .Lslot_" #name "\n ldr x16, [x16, :lo12:.Lslot_" #name "]\n cbnz x16, 1f\n"                    \
            " stp x29, x30, [sp, -80]!\n .cfi_def_cfa_offset 80\n .cfi_offset 29, -80\n .cfi_offset 30, -72\n"         \
            " mov x29, sp\n stp x0, x1, [sp, 16]\n stp x2, x3, [sp, 32]\n stp x4, x5, [sp, 48]\n"                      \
            " stp x6, x7, [sp, 64]\n adrp x0, .Lname_" #name "\n add x0, x0, :lo12:.Lname_" #name "\n"                 \
            " adrp x1, .Lslot_" #name "\n add x1, x1, :lo12:.Lslot_" #name "\n bl mpi_find\n mov x16, x0\n"            \
            " ldp x0, x1, [sp, 16]\n ldp x2, x3, [sp, 32]\n ldp x4, x5, [sp, 48]\n ldp x6, x7, [sp, 64]\n"             \
            " ldp x29, x30, [sp], 80\n .cfi_restore 29\n .cfi_restore 30\n .cfi_def_cfa_offset 0\n"                    \
            "1: br x16\n .cfi_endproc\n .size MPI_" #name ", . - MPI_" #name "\n .popsection\n");
MPI_CALLS(CALL)
#endif
