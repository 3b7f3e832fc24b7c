"""%slider: variables that sliders set, over Jupyter's comms, by ipywidgets' messages (protocol 2.1.0)."""
import patience
import pytest
from kernel.driver import Kernel, check

VIEW = "application/vnd.jupyter.widget-view+json"
RUNS_UNTIL_TOLD = "getchar();"


@pytest.fixture
def kernel():
    k = Kernel()
    yield k
    k.close()


@pytest.fixture(scope="module")
def patient():
    k = Kernel()
    k.run("#include <stdio.h>\n#include <stdint.h>")
    yield k
    k.close()


def opened(outcome):
    """The states that the cell has opened comms with, by the comms' ids."""
    return {content["comm_id"]: content["data"]["state"] for kind, content in outcome.messages
            if kind == "comm_open" and content["target_name"] == "jupyter.widget"}


def shown(outcome):
    assert outcome.status == "ok", outcome.error
    return outcome.displays[-1][1]["data"][VIEW]["model_id"]


def slider(kernel, line):
    """The comm of a new slider."""
    return shown(kernel.run(f"%slider {line}"))


def updates(outcome, comm):
    """What a cell has told a slider."""
    return [content["data"]["state"] for kind, content in outcome.messages
            if kind == "comm_msg" and content["comm_id"] == comm and content["data"]["method"] == "update"]


def say(kernel, kind, comm, wait=True, **content):
    """A comm's message from the front end: what the kernel publishes in answer."""
    message = kernel.client.session.msg(kind, {"comm_id": comm, **content})
    kernel.client.shell_channel.send(message)
    answers = []
    while wait:
        got = patience.message(kernel.client.get_iopub_msg, 30)
        if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
            break
        if got["msg_type"] != "status":
            answers.append((got["msg_type"], got["content"]))
    return answers


def move(kernel, comm, value, **options):
    return say(kernel, "comm_msg", comm, data={"method": "update", "state": {"value": value}, "buffer_paths": []}, **options)


def state_of(kernel, comm):
    ((kind, content),) = say(kernel, "comm_msg", comm, data={"method": "request_state"})
    assert kind == "comm_msg" and content["data"]["method"] == "update"
    return content["data"]["state"]


def test_a_slider_is_shown_by_the_models_of_ipywidgets(kernel):
    kernel.client.execute("int batch = 32;\n%slider batch 1 512")
    opens = []
    while len(opens) < 3:
        message = patience.message(kernel.client.get_iopub_msg, 60)
        assert message["msg_type"] != "error", message
        opens += [message] if message["msg_type"] == "comm_open" else []
    assert all(one["metadata"] == {"version": "2.1.0"} and one["content"]["data"]["buffer_paths"] == [] for one in opens)
    layout, style, own = [one["content"]["data"]["state"] for one in opens]
    ids = [one["content"]["comm_id"] for one in opens]
    assert (layout["_model_name"], style["_model_name"], own["_model_name"]) == ("LayoutModel", "SliderStyleModel", "IntSliderModel")
    assert (layout["_model_module"], own["_model_module"], own["_model_module_version"]) == (
        "@jupyter-widgets/base", "@jupyter-widgets/controls", "2.0.0")
    assert (own["layout"], own["style"]) == (f"IPY_MODEL_{ids[0]}", f"IPY_MODEL_{ids[1]}")
    assert [own[key] for key in ("description", "min", "max", "step", "value")] == ["batch", 1, 512, 1, 32]
    assert state_of(kernel, ids[2]) == own
    again = kernel.run("%slider batch 1 512")
    assert {kind for kind, content in again.messages if content.get("comm_id") in ids} == {"comm_close"}
    ((kind, content),) = again.displays
    assert content["data"]["text/plain"] == "batch = 32, a slider from 1 to 512" and content["data"][VIEW]["version_major"] == 2


def test_a_move_sets_the_variable_and_the_slider_follows_the_program(patient):
    comm = slider(patient, "rate 0.0 1")
    assert patient.run("rate").value == "0.0"
    assert [content["data"] for kind, content in move(patient, comm, 0.25)] == [
        {"method": "echo_update", "state": {"value": 0.25}, "buffer_paths": []}]
    assert patient.run("rate").value == "0.25"
    outcome = patient.run("rate = 0.5;")
    assert updates(outcome, comm) == [{"value": 0.5}] and state_of(patient, comm)["value"] == 0.5
    assert updates(patient.run("1;"), comm) == []
    outcome = patient.run("rate = 7;")
    assert updates(outcome, comm) == [{"value": 1.0}] and "rate is 7, outside of its slider's 0 to 1" in outcome.stderr
    outcome = patient.run("rate")
    assert outcome.value == "7.0" and not outcome.stderr


def test_help_sees_a_move_at_once(patient):
    comm = slider(patient, "seen 0 9")
    move(patient, comm, 6)
    assert patient.ask("comm_info")["status"] == "ok"  # the thread for help has gone on
    assert "value: 6" in patient.ask("inspect", "seen", 4)["data"]["text/plain"]


def test_a_move_while_a_cell_runs_is_for_the_next_cell(patient):
    comm = slider(patient, "held 0 9")
    request = patient.client.execute(RUNS_UNTIL_TOLD + '\nprintf("%d\\n", held);\nheld', allow_stdin=True)
    patience.message(patient.client.get_stdin_msg, 30)
    move(patient, comm, 4, wait=False)
    move(patient, comm, 5)
    behind = patient.client.execute("held + 100")
    patient.client.input("now")
    values = {}
    while len(values) < 2:
        message = patience.message(patient.client.get_iopub_msg, 60)
        if message["msg_type"] == "execute_result":
            values[message["parent_header"]["msg_id"]] = message["content"]["data"]["text/plain"]
    assert values == {request: "0", behind: "105"}
    patient._reply(behind)


TYPES = [  # type, MIN MAX, a move, how the value is shown
    ("signed char", "-128 127", -128, "-128"), ("uint8_t", "0 255", 255, "255"), ("short", "-9 9", -9, "-9"),
    ("unsigned", "0 4294967295", 4294967295, "4294967295"), ("long", "-9007199254740992 5", -9007199254740992, "-9007199254740992"),
    ("volatile long long", "-1 1", -1, "-1"), ("unsigned long", "0 9007199254740992", 9007199254740992, "9007199254740992"),
    ("float", "0 1 0.1", 0.1, "0.1"), ("double", "-1e-4 1e-4", 3e-5, "3e-05"), ("long double", "0 2", 1.5, "1.5"),
]


@pytest.mark.parametrize("number", range(len(TYPES)), ids=[row[0] for row in TYPES])
def test_each_type_of_number_gets_its_value(patient, number):
    kind, ends, value, written = TYPES[number]
    patient.run(f"{kind} typed{number} = 0, behind{number} = 1;")
    comm = slider(patient, f"typed{number} {ends}")
    move(patient, comm, value)
    got = patient.run(f'printf("%s", typed{number} == ({kind}){value} && behind{number} == 1 ? "same" : "differs");')
    assert got.stdout == "same" and updates(got, comm) == [], (got.stdout, got.messages)
    assert state_of(patient, comm)["value"] == value


def test_a_variable_is_made_where_there_is_none(patient):
    slider(patient, "whole_new -3 3")
    slider(patient, "real_new -3 3 0.5")
    assert state_of(patient, slider(patient, "not_octal 010 20"))["value"] == 10
    listed = patient.run("%whos variable").stdout
    assert "whole_new" in listed and "int (4 bytes) = -3" in " ".join(listed.split())
    assert patient.run("sizeof real_new + (real_new == -3)").value == "9"


@pytest.mark.parametrize("value", [3.5, "4", None, True, [1], {"a": 1}])
def test_what_is_no_such_number_moves_nothing(patient, value):
    comm = slider(patient, "kept 0 9")
    ((kind, content),) = move(patient, comm, value)
    assert content["data"] == {"method": "update", "state": {"value": 0}, "buffer_paths": []}
    assert patient.run("kept").value == "0"
    assert [content["data"]["state"] for kind, content in move(patient, comm, 1e300)] == [{"value": 9}]
    assert patient.run("kept = 0; kept").value == "0"


def test_other_comms_and_messages_are_answered_or_ignored(patient):
    comm = slider(patient, "asked 0 9")
    comms = patient.ask("comm_info", target_name="jupyter.widget")["comms"]
    assert comms[comm] == {"target_name": "jupyter.widget"} and len(comms) % 3 == 0
    assert patient.ask("comm_info", target_name="other")["comms"] == {}
    assert say(patient, "comm_open", "c1", target_name="jupyter.widget.control", data={}) == []
    ((kind, content),) = say(patient, "comm_msg", "c1", data={"method": "request_states"})
    states = content["data"]["states"]
    assert content["comm_id"] == "c1" and content["data"]["method"] == "update_states" and set(states) == set(comms)
    assert states[comm]["model_name"] == "IntSliderModel" and states[comm]["state"] == state_of(patient, comm)
    assert say(patient, "comm_close", "c1", data={}) == []
    for kind, content in [("comm_open", {"target_name": "other", "data": {}}), ("comm_open", {}), ("comm_msg", {"data": {"method": "update"}}),
                          ("comm_msg", {"data": 3}), ("comm_msg", {})]:
        assert say(patient, kind, "c2", **content) == [("comm_close", {"comm_id": "c2", "data": {}})]
    for data in [3, {}, {"method": 1}, {"method": "custom"}, {"method": "update"}, {"method": "update", "state": []}, {"method": "update", "state": {"max": 3}}]:
        assert say(patient, "comm_msg", comm, data=data) == []
    assert say(patient, "comm_close", comm, data={}) == []
    assert [kind for kind, _ in move(patient, comm, 3)] == ["comm_close"]
    assert patient.run("asked").value == "0" and comm not in patient.ask("comm_info")["comms"]


WRONG = [
    ("%slider", "wanted %slider NAME MIN MAX [STEP]"), ("%slider a 1", "wanted %slider"), ("%slider a 1 2 3 4", "wanted %slider"),
    ("%slider a one 2", "%slider: MIN must be a number, got 'one'"), ("%slider a 1 2x", "MAX must be a number, got '2x'"),
    ("%slider a 1 nan", "MAX must be a number, got 'nan'"), ("%slider a 1 inf", "MAX must be a number, got 'inf'"),
    ("%slider a 5 5", "MIN must be less than MAX, got 5 and 5"), ("%slider a 1 5 0", "STEP must be above 0 and at most MAX - MIN, which is 4, got 0"),
    ("%slider a 1 5 9", "STEP must be above 0"), ("%slider a 1 5 x", "STEP must be a number, got 'x'"), ("%slider a -1e308 1e308", "too far"),
    ("%slider 9x 1 5", "NAME must be the name of a variable, got '9x'"), ("%slider while 1 5", "'while', a word of C's own"),
    ("%slider a 0 3000000000", "'a' would be an int, which does not go from 0 to 3000000000"),
    ("%slider n 0.5 5", "'n' is of type int: MIN must be a whole number"), ("%slider n 0 5 0.5", "'n' is of type int: STEP must be a whole number"),
    ("%slider n 1 5", "'n' is 0, outside of 1 to 5"), ("%slider tiny 0 256", "'tiny' is of type unsigned char, which does not go from 0 to 256"),
    ("%slider big 0 9007199254740994", "at most 2^53"), ("%slider fixed 0 5", "'fixed' is const"), ("%slider own 0 5", "each thread has its own 'own'"),
    ("%slider there 0 5", "'there' is of type struct place: a slider sets whole numbers and floating ones"),
    ("%slider list 0 5", "'list' is of type int[3]"), ("%slider text 0 5", "'text' is of type char *"), ("%slider yes 0 1", "'yes' is of type _Bool"),
    ("%slider twice 0 5", "'twice' is a function, not a variable"), ("%slider length 0 5", "'length' is a type, not a variable"),
    ("%slider LIMIT 0 5", "'LIMIT' is a macro, not a variable"), ("%%slider a 1 5\nint x;", "%slider is for a line: write it with one %"),
]


@pytest.fixture(scope="module")
def things():
    k = Kernel()
    k.run("int n; unsigned char tiny; long big; const int fixed = 3; _Thread_local int own; struct place { int x; } there; int list[3];\n"
          "char *text; _Bool yes; int twice(int x) { return 2 * x; }\ntypedef int length;\n#define LIMIT 3")
    yield k
    k.close()


@pytest.mark.parametrize("cell, sentence", WRONG, ids=[row[0] for row in WRONG])
def test_wrong_use_is_one_sentence(things, cell, sentence):
    outcome = things.run(cell)
    check(outcome, {"error": [sentence]})
    assert "\n" not in outcome.errors[0]["evalue"] and not opened(outcome) and not outcome.displays
    assert things.run("n").value == "0"


@pytest.mark.parametrize("loss", ["%restart", "abort();", "#include <signal.h>\nraise(SIGKILL);"])
def test_a_slider_outlives_the_process_of_the_cells(kernel, loss):
    kernel.run("#include <stdlib.h>\nint depth = 3, other = 4;")
    comm = slider(kernel, "depth 1 9")
    move(kernel, comm, 7)
    lost = kernel.run(loss)
    assert "depth" not in lost.error, lost.error
    outcome = kernel.run("depth * 10 + other")
    assert outcome.value in ("70", "74") and "depth" not in outcome.stderr, outcome.stderr  # after abort() the process may live on
    move(kernel, comm, 8)
    assert kernel.run("depth").value == "8"


def test_a_slider_says_that_its_variable_is_gone_and_takes_the_new_one(kernel):
    kernel.run("int width = 3;")
    comm = slider(kernel, "width 1 9")
    outcome = kernel.run("%reset")
    assert updates(outcome, comm) == [{"description": "width (gone: no such variable)", "disabled": True}]
    move(kernel, comm, 5)
    outcome = kernel.run("double width = 2;")
    assert {"description": "width", "disabled": False} in updates(outcome, comm)
    assert kernel.run("width").value == "2.0"
    assert updates(kernel.run("char *width = 0;"), comm)[-1]["disabled"]
    assert updates(kernel.run("int width = 4;"), comm) == [{"description": "width", "disabled": False}, {"value": 4}]
    move(kernel, comm, 6)
    assert kernel.run("width").value == "6"


def test_the_exported_program_has_the_variable(kernel, tmp_path):
    kernel.run("#include <stdio.h>")
    slider(kernel, "count 2 9")
    kernel.run('printf("%d\\n", count);')
    kernel.run(f"%export {tmp_path}/all.c")
    text = (tmp_path / "all.c").read_text()
    assert "int count;" in text and "    /* %slider count 2 9 */\n    count = 2;\n" in text
    assert kernel.run(f"!cc -o {tmp_path}/all {tmp_path}/all.c && {tmp_path}/all").stdout.endswith("2\n")


def test_variables_are_offered(kernel):
    kernel.run("int batch_size = 3; int batch_of(void) { return 1; }")
    assert kernel.ask("complete", "%slider bat", 11)["matches"] == ["batch_size"]
