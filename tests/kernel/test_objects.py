"""A full stack is named and survived; queued cells that are dropped are told of on iopub."""
import patience
import pytest

from kernel.driver import Kernel


@pytest.fixture(scope="module")
def kernel():
    k = Kernel()
    yield k
    k.close()


RECURSIONS = {
    "depth() called itself about": "int depth(int n) { return 1 + depth(n + 1); }\ndepth(0);",
    "fib() called itself about": "long fib(int n) { return fib(n - 1) + fib(n - 2); }\nfib(5);",
    "called each other about": "int odd(int n);\nint even(int n) { return n ? 1 + odd(n - 1) : 1; }\n"
                               "int odd(int n) { return n ? 1 + even(n - 1) : 0; }\neven(-1);",
    "big() called itself": "int big(int n) { volatile char room[1 << 20]; room[n] = (char)n; return big(n + 1) + room[0]; }\nbig(0);",
    "the variables of huge() need more space": "int huge(int n) { volatile double a[4000000]; a[0] = n; return (int)a[n]; }\nhuge(1);",
    "through() called itself about": "int (*again)(int);\nint through(int n) { return 1 + again(n + 1); }\nagain = through;\nagain(0);",
    "cmp() called itself about": "#include <stdlib.h>\nint cmp(const void *a, const void *b)\n{\n    int v[] = {3, 1, 2};\n"
                                 "    qsort(v, 3, sizeof *v, cmp);\n    return *(const int *)a - *(const int *)b;\n}\ncmp(NULL, NULL);",
    "make() called itself about": "#include <stdlib.h>\nstruct node { struct node *next; };\nstruct node *make(int n)\n{\n"
                                  "    struct node *x = malloc(sizeof *x);\n    x->next = make(n + 1);\n    return x;\n}\nmake(0);",
}


@pytest.mark.parametrize("sentence", RECURSIONS)
def test_endless_recursion_is_named_and_variables_are_kept(kernel, sentence):
    kernel.run("int kept_through_recursion;\nkept_through_recursion = 41;")
    for _ in range(2):
        outcome = kernel.run(RECURSIONS[sentence])
        assert outcome.errors[0]["ename"] == "Stack overflow", outcome.error
        assert sentence in outcome.errors[0]["evalue"] and "In[" in outcome.errors[0]["evalue"]
        assert "Lost" not in outcome.error
    assert kernel.run("kept_through_recursion").value == "41"
    assert kernel.run("#include <stdlib.h>\nfor (int i = 0; i < 1000; i++) free(malloc(100 + i));\n7").value == "7"


def test_endless_recursion_of_another_thread_is_named(kernel):
    outcome = kernel.run("#include <pthread.h>\nint deep(int n) { return 1 + deep(n + 1); }\n"
                         "void *work(void *p) { return deep(0) ? p : NULL; }\npthread_t t;\n"
                         "pthread_create(&t, NULL, work, NULL);\npthread_join(t, NULL);")
    assert "Stack overflow at In[" in outcome.error and "deep() called itself about" in outcome.error


def test_a_bad_pointer_is_no_full_stack(kernel):
    for code in ("int *p = NULL;\n*p = 1;", "void f(char *p) { *p = 1; }\nf((char *)\"text\");", "int here;\n*(&here + (1L << 30)) = 1;"):
        assert kernel.run(code).errors[0]["ename"] == "Segmentation fault"


def test_queued_cells_that_are_dropped_are_busy_and_idle(kernel):
    client = kernel.client
    sent = [client.execute(code) for code in ("#include <unistd.h>\nusleep(300000);\n*(int *)0 = 1;", "1 + 1", "2 + 2")]
    states = {request: [] for request in sent}
    while not all("idle" in seen for seen in states.values()):
        message = patience.message(client.get_iopub_msg, 20)
        if message["msg_type"] == "status" and message["parent_header"].get("msg_id") in states:
            states[message["parent_header"]["msg_id"]].append(message["content"]["execution_state"])
    assert all(seen == ["busy", "idle"] for seen in states.values()), states
    assert [kernel._reply(request)["status"] for request in sent] == ["error", "aborted", "aborted"]
    assert kernel.run("3 + 3").value == "6"


def test_mpi_before_its_start_is_a_world_of_one(kernel):
    kernel.run("int kept_through_mpi;\nkept_through_mpi = 43;")
    first = kernel.run("#include <mpi.h>\nint r = 7, n = 7;\nMPI_Comm_rank(MPI_COMM_WORLD, &r);\nMPI_Comm_size(MPI_COMM_WORLD, &n);\n10 * r + n")
    assert first.value == "1", first.error
    assert first.stderr.count("before MPI_Init") == 1 and "%%ranks" in first.stderr
    many = kernel.run("float x = 3, y = 0;\nMPI_Sendrecv(&x, 1, MPI_FLOAT, 0, 5, &y, 1, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, "
                      "MPI_STATUS_IGNORE);\ny")
    assert many.value == "3.0" and many.stderr == ""
    assert kernel.run("MPI_Init(NULL, NULL);\nMPI_Finalize();\nkept_through_mpi").value == "43"


def test_any_function_of_mpi_may_be_the_first_and_an_error_is_the_cells(kernel):
    kernel.run("%restart")
    first = kernel.run("#include <mpi.h>\n#include <sys/wait.h>\n#include <signal.h>\n#include <unistd.h>\n"
                       "int size = 1; MPI_Aint at = 0; MPI_Datatype one;\n"
                       "MPI_Type_create_hindexed(1, &size, &at, MPI_INT, &one)")
    assert first.value == "0" and "MPI_Type_create_hindexed before MPI_Init" in first.stderr
    wrong = kernel.run("MPI_Bcast(&size, 1, MPI_INT, 9, MPI_COMM_WORLD);")
    assert wrong.error.startswith("Error\nMPI_Bcast: MPI_ERR_ROOT: invalid root, at In[") and wrong.stderr == ""
    child = kernel.run("MPI_Init(NULL, NULL);\nif (fork() == 0) MPI_Comm_rank(0, &size);\nint status; wait(&status); WTERMSIG(status) == SIGABRT")
    assert child.value == "1" and "MPI_Comm_rank: MPI_ERR_COMM: invalid communicator" in child.stderr


RECIPES = {
    "kolo_adam()": "kolo_adam(.learning_rate = 0.001, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-07)",
    "kolo_distributed(kolo_sgd(.momentum = 0.9))": "kolo_distributed(kolo_sgd(.learning_rate = 0.01, .momentum = 0.9))",
    "kolo_lamb(.clip_norm = 1, .beta_1 = KOLO_NONE, .exclude_vectors = true)":
        "kolo_lamb(.learning_rate = 0.001, .beta_1 = KOLO_NONE, .beta_2 = 0.999, .epsilon = 1e-07, .exclude_vectors = true, "
        ".clip_norm = 1)",
    "kolo_sgd(.learning_rate = 0.2, .schedule = kolo_warmup(kolo_cosine_decay(.decay_steps = 90), .steps = 9))":
        "kolo_sgd(.schedule = kolo_warmup(kolo_cosine_decay(.initial_learning_rate = 0.2, .decay_steps = 90), "
        ".steps = 9))",
    "kolo_adamw(.weight_decay = 0, .beta_1 = 0)":
        "kolo_adamw(.weight_decay = KOLO_NONE, .learning_rate = 0.001, .beta_1 = KOLO_NONE, .beta_2 = 0.999, .epsilon = 1e-07)",
    "kolo_batch_norm(.momentum = 0)": "kolo_batch_norm(.momentum = 0)",
    "kolo_piecewise_constant(.boundaries = {5, 9}, .values = {1, 0.1, 0.01})":
        "kolo_piecewise_constant(.boundaries = {5, 9}, .values = {1, 0.1, 0.01})",
    "kolo_piecewise_constant(.boundaries = {5}, .values = {1, KOLO_NONE})":
        "kolo_piecewise_constant(.boundaries = {5}, .values = {1, KOLO_NONE})",
    "kolo_dense(10, .activation = KOLO_RELU)": "kolo_dense(10, .activation = KOLO_RELU)",
    "kolo_dropout(0.5)": "kolo_dropout(0.5)",
    "kolo_conv2d(8, .kernel = {3, 3}, .name = \"first\")":
        "kolo_conv2d(8, .kernel = {3, 3}, .name = \"first\")",
    "kolo_max_pool2d(2, .padding = KOLO_SAME)": "kolo_max_pool2d(2, .padding = KOLO_SAME)",
    "kolo_input(28, 28, 1)": "kolo_input(28, 28, 1)",
    "kolo_mirrored(.devices = 2)": "kolo_mirrored(.devices = 2)",
    "KOLO_SPARSE_CROSSENTROPY": "KOLO_SPARSE_CROSSENTROPY",
    "KOLO_ACCURACY": "KOLO_ACCURACY",
    "kolo_layer nothing = {0}; nothing": "kolo_layer()",
}


@pytest.mark.parametrize("code", RECIPES)
def test_recipes_are_shown_as_the_c_that_makes_them(kernel, code):
    assert kernel.run("#include <kolo.h>\n" + code).value == RECIPES[code]


@pytest.mark.parametrize("code, sentence", [
    ("float v[4];\nkolo_allreduce(v, 1, 3);", "In[k]:3:22: kolo_allreduce: an option's name was forgotten here: write .name = value"),
    ("int t = 1;\nkolo_load_model();", "In[k]:3:1: kolo_load_model takes (path); ?kolo_load_model says more"),
    ("int t = 1;\nkolo_model_save(\"f\");", "In[k]:3:1: kolo_model_save takes (model, path); ?kolo_model_save says more"),
    ("int t = 1;\nkolo_mnist();", "In[k]:3:1: kolo_mnist takes (split); ?kolo_mnist says more"),
    ("int t = 1;\nkolo_join(3);", "In[k]:3:1: kolo_join takes nothing; ?kolo_join says more"),
    ("int t = 1;\nkolo_barrier(3);", "In[k]:3:14: kolo_barrier: an option's name was forgotten here: write .name = value"),
])
def test_a_call_of_the_library_with_other_arguments_is_told_what_it_takes(kernel, code, sentence):
    outcome = kernel.run("#include <kolo.h>\n" + code)
    evalue = outcome.errors[0]["evalue"]
    assert evalue[evalue.index("]"):] == sentence[sentence.index("]"):]
    assert "_at" not in outcome.error and "/kolo.h" not in outcome.error and "KOLO_HERE" not in outcome.error


def test_no_function_behind_a_macro_is_meant(kernel):
    error = kernel.run("#include <kolo.h>\nkolo_allreduce_a(3)").error
    assert "did you mean 'kolo_allreduce'?" in error and "_at" not in error
