#include "jupyter/server.hpp"

#include <cstdlib>
#include <cstring>
#include <thread>

namespace jupyter
{
namespace
{
const auto CELL_ENDS = std::chrono::seconds(3); // for an interrupted cell at a shutdown
const auto LEAVE = std::chrono::seconds(2); // for the main thread to return after that

// The C side's text.
std::string taken(char *text)
{
    std::string copy = text ? text : "{}";
    std::free(text);
    return copy;
}

bool is_request(const std::string &type)
{
    const std::string end = "_request";
    return type.size() > end.size() && type.compare(type.size() - end.size(), end.size(), end) == 0;
}

bool is_comm(const request &r)
{
    return r.type().rfind("comm_", 0) == 0 && !is_request(r.type());
}

std::string code_of(const request &r)
{
    return r.content().at("code").get<std::string>();
}

int cursor_of(const request &r)
{
    return r.content().at("cursor_pos").get<int>();
}
} // namespace

std::string error_content(const std::string &name, const std::string &sentence)
{
    nl::json trace = nl::json::array({name + ": " + sentence});
    return dumped({{"status", "error"}, {"ename", name}, {"evalue", sentence}, {"traceback", trace}});
}

void server::send_iopub(const std::string &type, const std::string &parent, std::string content)
{
    // The comms that this kernel opens are widgets'. Their front end asks for the version of its protocol.
    const char *metadata = type == "comm_open" ? "{\"version\":\"2.1.0\"}" : "{}";
    wires.send({channel::iopub, {"kernel." + type}, dumped(make_header(type)), parent, std::move(content), metadata});
}

void server::send_status(const char *state, const request &r)
{
    send_iopub("status", dumped(r.header()), dumped({{"execution_state", state}}));
}

void server::send_reply(const request &r, const std::string &content)
{
    std::string type = r.type();
    type.replace(type.size() - std::strlen("request"), std::string::npos, "reply");
    wires.send({r.from, r.message.identities(), dumped(make_header(type)), dumped(r.header()), content});
}

// A message that is answered while a cell runs leaves the kernel busy with that cell.
void server::send_idle(const request &r)
{
    std::lock_guard<std::mutex> guard(state_lock);
    send_status("idle", r);
    if (running) send_status("busy", *running);
}

void server::respond(const request &r, const answer *how)
{
    if (!is_request(r.type())) return;
    send_status("busy", r);
    std::string content;
    try {
        content = how ? (*how)(r) : error_content("ValueError", "the kernel knows no " + r.type());
    } catch (const std::exception &e) {
        content = error_content("ValueError", r.type() + ": " + e.what());
    }
    send_reply(r, content);
    send_idle(r);
}

void server::answer_each(queue &from, const answers &known)
{
    while (std::optional<request> r = from.take()) {
        door::visit inside(entrance);
        if (!inside) continue;
        if (is_comm(*r)) {
            session_settle_sliders(the_session);
            continue;
        }
        auto how = known.find(r->type());
        respond(*r, how == known.end() ? nullptr : &how->second);
    }
}

// On the thread of the sockets: a cell that was sent after the message finds the slider where it was moved to. The
// thread for help goes on with it, since that may wait.
void server::comm(request r)
{
    door::visit inside(entrance);
    if (!inside) return;
    send_status("busy", r);
    if (char *answer = session_comm(the_session, r.type().c_str(), dumped(r.content()).c_str())) {
        nl::json message = nl::json::parse(taken(answer));
        send_iopub(text_in(message, "type"), dumped(r.header()), dumped(message["content"]));
    }
    send_idle(r);
    help.add(std::move(r));
}

// On the thread of the sockets.
void server::receive(request r)
{
    static const char *const helpful[] = {"complete_request", "inspect_request",     "is_complete_request",
                                          "history_request",  "kernel_info_request", "connect_request",
                                          "comm_info_request"};
    if (r.from == channel::input) return lines.answered(r);
    if (r.from == channel::control || r.type() == "shutdown_request") {
        if (r.type() == "interrupt_request") interrupt(r);
        return control.add(std::move(r));
    }
    if (is_comm(r)) return comm(std::move(r));
    std::string id = r.subshell();
    std::lock_guard<std::mutex> guard(subshell_lock);
    auto subshell = subshells.find(id);
    if (!id.empty() && subshell == subshells.end()) {
        answer unknown = [&id](const request &) {
            return error_content("UnknownSubshellError", "there is no subshell '" + id + "'");
        };
        return respond(r, &unknown);
    }
    for (const char *type : helpful) {
        if (r.type() == type) return help.add(std::move(r));
    }
    (id.empty() ? main_shell : *subshell->second).requests.add(std::move(r));
}

void server::serve(session *s)
{
    the_session = s;
    wires.serve([this](request r) { receive(std::move(r)); });
    send_iopub("status", "{}", dumped({{"execution_state", "starting"}}));
    std::thread helping([this] { answer_each(help, help_answers()); });
    std::thread controlling([this] { answer_each(control, control_answers()); });
    serve_shell(main_shell);
    controlling.join();
    helping.join();
    wires.stop();
}

// ------------------------------------------------------------------------------------------------ control

// An interrupt travels on another socket than the cell it is meant for, and may overtake it: one that came while no
// cell ran ends a cell that was asked for before, by the front end's clock, and that comes soon after.
void server::interrupt(const request &r)
{
    {
        std::lock_guard<std::mutex> guard(state_lock);
        early_interrupt = running ? "" : text_in(r.header(), "date");
        early_interrupt_came = clock::now();
        if (!running) return;
    }
    door::visit inside(entrance);
    if (inside) session_interrupt(the_session);
    lines.interrupt();
}

server::answers server::control_answers()
{
    answers known = help_answers();
    known["interrupt_request"] = [this](const request &) {
        session_interrupt_debugger(the_session);
        return std::string("{\"status\":\"ok\"}");
    };
    known["debug_request"] = [this](const request &r) { return debug(r); };
    known["shutdown_request"] = [this](const request &r) { return shut_down(r); };
    known["create_subshell_request"] = [this](const request &) { return create_subshell(); };
    known["delete_subshell_request"] = [this](const request &r) { return delete_subshell(r); };
    known["list_subshell_request"] = [this](const request &) { return list_subshells(); };
    return known;
}

std::string server::debug(const request &r)
{
    {
        std::lock_guard<std::mutex> guard(state_lock);
        last_debug = dumped(r.header());
    }
    return taken(session_debug(the_session, dumped(r.content()).c_str()));
}

std::string server::create_subshell()
{
    auto made = std::make_shared<shell>();
    made->id = text_in(make_header(""), "msg_id");
    std::lock_guard<std::mutex> guard(subshell_lock);
    std::thread([this, made] { serve_shell(*made); }).detach();
    subshells[made->id] = made;
    return dumped({{"status", "ok"}, {"subshell_id", made->id}});
}

// Requests that it has received are still answered.
std::string server::delete_subshell(const request &r)
{
    std::string id = text_in(r.content(), "subshell_id");
    std::lock_guard<std::mutex> guard(subshell_lock);
    auto found = subshells.find(id);
    if (found == subshells.end()) return error_content("UnknownSubshellError", "there is no subshell '" + id + "'");
    found->second->requests.close(false);
    subshells.erase(found);
    return dumped({{"status", "ok"}});
}

std::string server::list_subshells()
{
    nl::json ids = nl::json::array();
    std::lock_guard<std::mutex> guard(subshell_lock);
    for (const auto &one : subshells) ids.push_back(one.first);
    return dumped({{"status", "ok"}, {"subshell_id", ids}});
}

// Interrupts a cell that runs, drops requests that wait, and closes the session, which ends its processes. When the
// reply is out, the main thread returns; if it cannot, the process ends without it.
std::string server::shut_down(const request &r)
{
    bool restart = r.content().value("restart", false);
    for (queue *each : {&main_shell.requests, &help, &control}) each->close(true);
    {
        std::lock_guard<std::mutex> guard(subshell_lock);
        for (auto &one : subshells) one.second->requests.close(true);
    }
    session_interrupt(the_session);
    lines.interrupt();
    session_close(the_session, entrance.close(CELL_ENDS));
    std::string content = dumped({{"status", "ok"}, {"restart", restart}});
    send_iopub("shutdown_reply", dumped(r.header()), content);
    std::thread([this] {
        std::this_thread::sleep_for(LEAVE);
        wires.stop();
        std::_Exit(0);
    }).detach();
    return content;
}

// ------------------------------------------------------------------------------------------------ help

std::string server::kernel_info()
{
    nl::json features = nl::json::array({"kernel subshells"});
    if (session_has_debugger()) features.push_back("debugger");
    nl::json language = {{"name", "c"},
                         {"version", "17"},
                         {"mimetype", "text/x-csrc"},
                         {"file_extension", ".c"},
                         {"pygments_lexer", "c"},
                         {"codemirror_mode", "text/x-csrc"}};
    return dumped({{"status", "ok"},
                   {"protocol_version", PROTOCOL},
                   {"implementation", "kolo"},
                   {"implementation_version", KOLO_VERSION},
                   {"language_info", language},
                   {"banner", "Kolo: C cells, state from cell to cell, distributed deep learning with <kolo.h>. "
                              "%lsmagic lists the magics."},
                   {"help_links", nl::json::array()},
                   {"debugger", session_has_debugger()},
                   {"supported_features", features}});
}

server::answers server::help_answers()
{
    answers known;
    known["complete_request"] = [this](const request &r) {
        return taken(session_complete(the_session, code_of(r).c_str(), cursor_of(r)));
    };
    known["inspect_request"] = [this](const request &r) {
        int detail = r.content().value("detail_level", 0);
        return taken(session_inspect(the_session, code_of(r).c_str(), cursor_of(r), detail));
    };
    known["is_complete_request"] = [this](const request &r) {
        return taken(session_is_complete(the_session, code_of(r).c_str()));
    };
    known["history_request"] = [this](const request &r) {
        return taken(session_history(the_session, dumped(r.content()).c_str()));
    };
    known["kernel_info_request"] = [this](const request &) { return kernel_info(); };
    known["comm_info_request"] = [this](const request &r) {
        return taken(session_comm_info(the_session, text_in(r.content(), "target_name").c_str()));
    };
    known["connect_request"] = [this](const request &) {
        return dumped({{"status", "ok"},
                       {"shell_port", where.shell},
                       {"control_port", where.control},
                       {"stdin_port", where.input},
                       {"iopub_port", where.iopub},
                       {"hb_port", where.heartbeat}});
    };
    return known;
}
} // namespace jupyter
