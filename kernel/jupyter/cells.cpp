// How the server runs cells. Read first: server.hpp.
#include "jupyter/server.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace jupyter
{
struct execution {
    const request &cell;
    std::string header;  // as JSON text
    unsigned interrupts; // that had come as it began
    bool failed, stop_on_error;
};

namespace
{
const auto OVERTAKES = std::chrono::seconds(10); // how long before its cell an interrupt may arrive
const auto ON_THEIR_WAY = std::chrono::milliseconds(20); // how long the reply of a failed cell waits

thread_local execution *here = nullptr;

// The content of an execute_request, with the protocol's defaults. Throws where it has another form.
struct cell {
    std::string code;
    bool silent, store, allow_stdin, stop_on_error;
    nl::json expressions;

    explicit cell(const nl::json &content)
        : code(content.at("code").get<std::string>()), silent(content.value("silent", false)),
          store(content.value("store_history", true) && !silent), allow_stdin(content.value("allow_stdin", false)),
          stop_on_error(content.value("stop_on_error", true)),
          expressions(content.value("user_expressions", nl::json::object()))
    {
        std::replace(code.begin(), code.end(), '\0', '\1'); // C strings end at a zero: run.c refuses this mark of one
    }
};
} // namespace

void server::serve_shell(shell &own)
{
    while (std::optional<request> r = own.requests.take()) {
        door::visit inside(entrance);
        if (inside) handle(own, *r);
    }
}

void server::handle(shell &own, const request &r)
{
    if (r.type() == "execute_request") return execute(own, r);
    respond(r, nullptr);
}

// An aborted cell is not shown as input, and has no number.
void server::execute(shell &own, const request &r)
{
    send_status("busy", r);
    if (own.last.aborts(r)) {
        send_reply(r, "{\"status\":\"aborted\"}");
    } else {
        std::unique_lock<std::mutex> one(cell_lock, std::defer_lock);
        if (own.id.empty()) one.lock();
        if (one.owns_lock() || one.try_lock()) run_cell(own, r);
        else run_beside_a_cell(r);
    }
    send_status("idle", r);
}

// All cells share one process, which runs one of them: a subshell's may read a variable then, and no more. It has no
// number, since it is not the session's.
void server::run_beside_a_cell(const request &r)
{
    std::string header = dumped(r.header());
    char *data = session_glance(the_session, text_in(r.content(), "code").c_str());
    if (data) {
        std::string content = "{\"execution_count\":" + std::to_string(session_count(the_session)) +
                              ",\"metadata\":{},\"data\":" + data + "}";
        std::free(data);
        send_iopub("execute_result", header, content);
        return send_reply(r, dumped({{"status", "ok"},
                                     {"execution_count", session_count(the_session)},
                                     {"payload", nl::json::array()},
                                     {"user_expressions", nl::json::object()}}));
    }
    std::string content =
        error_content("BusyError", "a cell is running, and all cells share one process: until it has "
                                   "ended or has been interrupted, only a variable's name is answered");
    send_iopub("error", header, content);
    send_reply(r, content);
}

void server::run_cell(shell &own, const request &r)
{
    execution now = {r, dumped(r.header()), lines.interrupts(), false, true};
    std::string content;
    try {
        content = run(now);
    } catch (const std::exception &e) {
        content = error_content("ValueError", std::string("execute_request: ") + e.what());
    }
    here = nullptr;
    {
        std::lock_guard<std::mutex> guard(state_lock);
        running = nullptr;
    }
    if (now.failed && now.stop_on_error) {
        // A client that has no reply yet has queued its cells behind this one. The last of them may still be on their
        // way.
        std::this_thread::sleep_for(ON_THEIR_WAY);
        own.last.note(r, clock::now());
    }
    send_reply(r, content);
}

bool server::begins_interrupted(const execution &now, bool silent)
{
    std::lock_guard<std::mutex> guard(state_lock);
    std::string asked = text_in(now.cell.header(), "date");
    bool recent = clock::now() - early_interrupt_came < OVERTAKES;
    if (!running) session_forget_interrupt(the_session);
    running = &now.cell;
    if (!silent) last_cell = now.header;
    return recent && !early_interrupt.empty() && !asked.empty() && asked < early_interrupt;
}

std::string server::run(execution &now)
{
    const cell c(now.cell.content());
    now.stop_on_error = c.stop_on_error;
    bool interrupted = begins_interrupted(now, c.silent);
    unsigned number = session_count(the_session) + (c.store ? 1 : 0);
    if (!c.silent) send_iopub("execute_input", now.header, dumped({{"code", c.code}, {"execution_count", number}}));
    here = &now;
    if (interrupted) session_interrupt(the_session);
    char *reply =
        session_execute(the_session, c.code.c_str(), c.silent, c.store, dumped(c.expressions).c_str(), c.allow_stdin);
    std::string content = reply;
    std::free(reply);
    return content;
}

// Output of a background program between cells belongs to the cell that started it, the last one. The debugger's
// events are no cell's: their parent is the front end's last word to the debugger.
void server::publish(const char *type, const char *content)
{
    bool event = !std::strcmp(type, "debug_event");
    if (here && !event) {
        if (!std::strcmp(type, "error")) here->failed = true;
        return send_iopub(type, here->header, content);
    }
    std::lock_guard<std::mutex> guard(state_lock);
    send_iopub(type, event ? last_debug : last_cell, content);
}

char *server::ask(const char *prompt)
{
    if (!here) return nullptr;
    nl::json header = make_header("input_request");
    std::string content = dumped({{"prompt", prompt}, {"password", false}});
    std::optional<std::string> line = lines.ask(text_in(header, "msg_id"), here->interrupts, [&] {
        wires.send({channel::input, here->cell.message.identities(), dumped(header), here->header, content});
    });
    return line ? strdup(line->c_str()) : nullptr;
}
} // namespace jupyter
