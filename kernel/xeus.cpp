// The only C++ of the kernel: Jupyter's protocol through xeus, and nothing else. Everything is asked of front.h as
// JSON. What xeus 2.4 needs help with: publishing from more than one thread (a lock), interrupts by message, the key of
// a password prompt, its execution counter (it counts silent cells too), and bytes that are not UTF-8.
#include "front.h"

#include <algorithm>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <xeus/xdebugger.hpp>
#include <xeus/xhelper.hpp>
#include <xeus/xhistory_manager.hpp>
#include <xeus/xinput.hpp>
#include <xeus/xinterpreter.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xserver_shell_main.hpp>
#include <zmq.hpp>

namespace
{
session *the_session = nullptr;
std::atomic<bool> own_input = false; // the execute_input that is being published is the interpreter's, not xeus's
std::streambuf *log_buffer = std::clog.rdbuf();
std::atomic<bool> asking{false}; // the shell thread waits for a line of input
pthread_t shell_thread;
thread_local bool executing = false; // this thread runs a cell

nl::json parsed(char *text)
{
    nl::json value = nl::json::parse(text, nullptr, false);
    std::free(text);
    return value.is_discarded() ? nl::json::object() : value;
}

// An interrupt travels on another socket than the cell it is meant for, and may overtake it: one that came while no
// cell ran ends a cell that was asked for before, by the front end's clock, and that comes soon after.
class cell_watch
{
  public:
    // The cell begins; was it interrupted before it came?
    bool begin(const nl::json &request)
    {
        std::lock_guard<std::mutex> guard(lock);
        runs = true;
        std::string of_cell = request.value("date", "");
        bool recent = std::chrono::steady_clock::now() - came < std::chrono::seconds(10);
        return recent && !date.empty() && !of_cell.empty() && of_cell < date;
    }

    void end()
    {
        std::lock_guard<std::mutex> guard(lock);
        runs = false;
    }

    // An interrupt has come. False when no cell runs: it is kept in mind.
    bool interrupted(const nl::json &request)
    {
        std::lock_guard<std::mutex> guard(lock);
        date = runs ? "" : request.value("date", "");
        came = std::chrono::steady_clock::now();
        return runs;
    }

  private:
    std::mutex lock;
    bool runs = false;
    std::string date; // ISO 8601, of the interrupt's request: in order as text
    std::chrono::steady_clock::time_point came;
};

cell_watch the_cell;

void interrupt()
{
    session_interrupt(the_session);
    if (asking) pthread_kill(shell_thread, SIGUSR1);
}

class server : public xeus::xserver_shell_main
{
  public:
    using xserver_shell_main::xserver_shell_main;
    void publish_for_last_cell(const std::string &type, nl::json content);
    void publish_as(const char *type, const nl::json &parent, nl::json content);

  private:
    void publish_impl(xeus::xpub_message message, xeus::channel c) override;
    void start_impl(xeus::xpub_message message) override;
    void send_shell_impl(xeus::xmessage message) override;
    void send_control_impl(xeus::xmessage message) override;
    void send_stdin_impl(xeus::xmessage message) override;
    void publish_locked(const std::string &topic, const std::string &type, const nl::json &author,
                        const nl::json &parent, nl::json content);

    std::mutex lock;
    std::string last_topic;
    nl::json last_header, last_parent; // of the last cell's execute_input
};

// xeus numbers cells by a counter of its own that also counts unstored ones: its execute_input is held back, and the
// interpreter publishes the right one.
void server::publish_impl(xeus::xpub_message message, xeus::channel c)
{
    bool input = message.header().value("msg_type", "") == "execute_input";
    if (input && !own_input) return;
    std::lock_guard<std::mutex> guard(lock);
    if (input) {
        last_topic = message.topic();
        last_header = message.header();
        last_parent = message.parent_header();
    }
    xserver_shell_main::publish_impl(std::move(message), c);
}

// By the holder of the lock. `author`: a header with the user's name and session.
void server::publish_locked(const std::string &topic, const std::string &type, const nl::json &author,
                            const nl::json &parent, nl::json content)
{
    nl::json header = xeus::make_header(type, author.value("username", ""), author.value("session", ""));
    xserver_shell_main::publish_impl(xeus::xpub_message(topic, std::move(header), parent, nl::json::object(),
                                                        std::move(content), {}),
                                     xeus::channel::SHELL);
}

// What a background program prints between cells belongs to the cell that started it, the last one: xeus would give it
// whatever request comes in at that moment.
void server::publish_for_last_cell(const std::string &type, nl::json content)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!last_header.is_null()) publish_locked(last_topic, type, last_header, last_parent, std::move(content));
}

// As the answer to the request with that header.
void server::publish_as(const char *type, const nl::json &parent, nl::json content)
{
    std::lock_guard<std::mutex> guard(lock);
    publish_locked(type, type, parent, parent, std::move(content));
}

// xeus has written its version to the log by now: messages of it that matter may follow.
void server::start_impl(xeus::xpub_message message)
{
    std::clog.rdbuf(log_buffer);
    std::clog.clear();
    xserver_shell_main::start_impl(std::move(message));
}

xeus::xmessage with_content(const xeus::xmessage &message, nl::json content)
{
    return xeus::xmessage(message.identities(), message.header(), message.parent_header(), message.metadata(),
                          std::move(content), xeus::buffer_sequence(message.buffers()));
}

void server::send_shell_impl(xeus::xmessage message)
{
    nl::json content = message.content();
    bool aborted = false;
    if (message.header().value("msg_type", "") == "execute_reply") {
        content["execution_count"] = session_count(the_session);
        aborted = content.value("status", "") == "error" && !content.contains("ename");
        if (aborted) content["status"] = "aborted";
    }
    // xeus says nothing on iopub of what it aborts; a front end that waits for "idle" would wait for ever.
    if (aborted) publish_as("status", message.parent_header(), {{"execution_state", "busy"}});
    const nl::json &request = message.parent_header();
    xserver_shell_main::send_shell_impl(with_content(message, std::move(content)));
    if (aborted) publish_as("status", request, {{"execution_state", "idle"}});
}

void server::send_control_impl(xeus::xmessage message)
{
    nl::json content = message.content();
    if (message.header().value("msg_type", "") == "interrupt_reply") {
        if (the_cell.interrupted(message.parent_header())) interrupt();
        content["status"] = "ok";
    }
    xserver_shell_main::send_control_impl(with_content(message, std::move(content)));
}

void server::send_stdin_impl(xeus::xmessage message)
{
    nl::json content = message.content();
    if (content.contains("pwd")) {
        content["password"] = content["pwd"];
        content.erase("pwd");
    }
    xserver_shell_main::send_stdin_impl(with_content(message, std::move(content)));
}

server *the_server = nullptr;

std::unique_ptr<xeus::xserver> make_server(xeus::xcontext &context, const xeus::xconfiguration &config,
                                           nl::json::error_handler_t handler)
{
    auto made = std::make_unique<server>(context.get_wrapped_context<zmq::context_t>(), config, handler);
    the_server = made.get();
    return made;
}

class interpreter : public xeus::xinterpreter
{
  public:
    void publish(const std::string &type, nl::json content);

  private:
    void configure_impl() override
    {
        xeus::register_interpreter(this);
    }

    nl::json execute_request_impl(int, const std::string &code, bool silent, bool store, nl::json expressions,
                                  bool allow_stdin) override;

    nl::json complete_request_impl(const std::string &code, int cursor) override
    {
        return parsed(session_complete(the_session, code.c_str(), cursor));
    }

    nl::json inspect_request_impl(const std::string &code, int cursor, int detail) override
    {
        return parsed(session_inspect(the_session, code.c_str(), cursor, detail));
    }

    nl::json is_complete_request_impl(const std::string &code) override
    {
        return parsed(session_is_complete(the_session, code.c_str()));
    }

    nl::json kernel_info_request_impl() override;

    void shutdown_request_impl() override
    {
        interrupt();
        session_close(the_session);
    }
};

nl::json interpreter::execute_request_impl(int, const std::string &code, bool silent, bool store, nl::json expressions,
                                           bool allow_stdin)
{
    shell_thread = pthread_self();
    own_input = true;
    if (!silent) publish_execution_input(code, static_cast<int>(session_count(the_session)) + (store ? 1 : 0));
    own_input = false;
    executing = true;
    if (the_cell.begin(parent_header())) session_interrupt(the_session);
    std::string text = code; // C strings end at a zero: run.c refuses this mark of one
    std::replace(text.begin(), text.end(), '\0', '\1');
    char *reply =
        session_execute(the_session, text.c_str(), silent, store && !silent, expressions.dump().c_str(), allow_stdin);
    the_cell.end();
    executing = false;
    return parsed(reply);
}

nl::json interpreter::kernel_info_request_impl()
{
    nl::json reply =
        xeus::create_info_reply("", "kolo", KOLO_VERSION, "c", "17", "text/x-csrc", ".c", "c", "text/x-csrc", "",
                                "Kolo: C cells, state from cell to cell, distributed deep learning with <kolo.h>. "
                                "%lsmagic lists the magics.");
    reply["status"] = "ok";
    reply["debugger"] = session_has_debugger();
    reply["supported_features"] = session_has_debugger() ? nl::json{"debugger"} : nl::json::array();
    return reply;
}

void interpreter::publish(const std::string &type, nl::json content)
{
    if (type == "stream") publish_stream(content["name"], content["text"]);
    else if (type == "display_data") display_data(content["data"], content["metadata"], content["transient"]);
    else if (type == "update_display_data")
        update_display_data(content["data"], content["metadata"], content["transient"]);
    else if (type == "clear_output") clear_output(content["wait"]);
    else if (type == "execute_result")
        publish_execution_result(content["execution_count"], content["data"], content["metadata"]);
    else if (type == "error") publish_execution_error(content["ename"], content["evalue"], content["traceback"]);
}

// xeus's own manager always says line 1 and numbers as text: the session keeps the history.
class history_of_session : public xeus::xhistory_manager
{
  private:
    void configure_impl() override
    {
    }
    void store_inputs_impl(int, int, const std::string &, const std::string &) override
    {
    }

    nl::json ask(const nl::json &request) const
    {
        return parsed(session_history(the_session, request.dump().c_str()));
    }

    nl::json get_tail_impl(int n, bool, bool output) const override
    {
        return ask({{"hist_access_type", "tail"}, {"n", n}, {"output", output}});
    }

    nl::json get_range_impl(int session_number, int start, int stop, bool, bool output) const override
    {
        return ask({{"hist_access_type", "range"},
                    {"session", session_number},
                    {"start", start},
                    {"stop", stop},
                    {"output", output}});
    }

    nl::json search_impl(const std::string &pattern, bool, bool output, int n, bool unique) const override
    {
        return ask({{"hist_access_type", "search"},
                    {"pattern", pattern},
                    {"n", n},
                    {"unique", unique},
                    {"output", output}});
    }
};

std::mutex debug_lock;
nl::json debug_parent = nl::json::object(); // the header of the last debug_request

class debugger_of_session : public xeus::xdebugger
{
  private:
    nl::json process_request_impl(const nl::json &header, const nl::json &content) override
    {
        {
            std::lock_guard<std::mutex> guard(debug_lock);
            debug_parent = header;
        }
        return parsed(session_debug(the_session, content.dump().c_str()));
    }
};

std::unique_ptr<xeus::xdebugger> make_debugger(xeus::xcontext &, const xeus::xconfiguration &, const std::string &,
                                               const std::string &, const nl::json &)
{
    return std::make_unique<debugger_of_session>();
}

// The debugger's events are nobody's cell's: their parent is the front end's last word to the debugger.
void publish_debug_event(nl::json content)
{
    nl::json parent;
    {
        std::lock_guard<std::mutex> guard(debug_lock);
        parent = debug_parent;
    }
    if (the_server) the_server->publish_as("debug_event", parent, std::move(content));
}

void publish_for_session(void *self, const char *type, const char *content)
{
    nl::json value = nl::json::parse(content, nullptr, false);
    if (value.is_discarded()) return;
    if (!std::strcmp(type, "debug_event")) publish_debug_event(std::move(value));
    else if (executing) static_cast<interpreter *>(self)->publish(type, value);
    else if (the_server) the_server->publish_for_last_cell(type, value);
}

void nothing(int)
{
}

// A line from the front end; an interrupt wakes it with SIGUSR1, unblocked here only: elsewhere it would end the
// kernel.
char *ask_for_session(void *, const char *prompt)
{
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    char *line = nullptr;
    try {
        asking = true;
        pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
        std::string answer = xeus::blocking_input_request(prompt, false);
        line = strdup(answer.c_str());
    } catch (const zmq::error_t &) {
        line = nullptr; // an interrupt
    }
    pthread_sigmask(SIG_BLOCK, &wake, nullptr);
    asking = false;
    return line;
}

// A kernel whose Jupyter is gone has nobody to serve, and would run for ever: as ipykernel does, it ends when its
// parent is no longer the one that JPY_PARENT_PID names. The guard ends the rest.
void watch_parent()
{
    const char *given = std::getenv("JPY_PARENT_PID");
    const pid_t parent = given ? static_cast<pid_t>(std::strtol(given, nullptr, 10)) : 0;
    if (parent <= 1 || getppid() != parent) return;
    std::thread([parent] {
        while (getppid() == parent) std::this_thread::sleep_for(std::chrono::seconds(1));
        _exit(1);
    }).detach();
}

void block_signals()
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int number : {SIGINT, SIGCHLD, SIGUSR1, SIGPIPE}) sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    struct sigaction wake = {};
    wake.sa_handler = nothing;
    sigaction(SIGUSR1, &wake, nullptr);
}
} // namespace

int main(int argc, char **argv)
{
    std::string file = xeus::extract_filename(argc, argv);
    if (file.empty()) {
        std::cerr << "kolo-kernel is started by Jupyter: kolo-kernel -f CONNECTION_FILE\n";
        return 2;
    }
    block_signals();
    watch_parent();
    auto owner = std::make_unique<interpreter>();
    front f = {owner.get(), publish_for_session, ask_for_session};
    char *problem = nullptr;
    the_session = session_open(&f, "/proc/self/exe", &problem);
    if (!the_session) {
        std::cerr << "kolo-kernel: " << problem << "\n";
        return 1;
    }
    xeus::xkernel kernel(xeus::load_configuration(file), xeus::get_user_name(), xeus::make_context<zmq::context_t>(),
                         std::move(owner), make_server, std::make_unique<history_of_session>(), nullptr, make_debugger,
                         nl::json::object(), nl::json::error_handler_t::replace);
    std::clog.rdbuf(nullptr);
    kernel.start();
    return 0;
}
