// The kernel as Jupyter sees it: every request of the protocol, asked of front.h. These threads answer:
//   the thread of the sockets   interrupts, lines of input and comms; it hands over everything else at once
//   the main thread             cells of the main shell, one after the other
//   a thread for each subshell  those of the subshell (JEP 91)
//   a thread for help           completion, inspection, is_complete, history, kernel_info: also while a cell runs
//   a thread for control        the debugger, subshells, shutdown
// Read first: message.hpp, shell.hpp, ../front.h.
#ifndef KERNEL_JUPYTER_SERVER_HPP
#define KERNEL_JUPYTER_SERVER_HPP

#include "front.h"
#include "jupyter/input.hpp"
#include "jupyter/shell.hpp"
#include "jupyter/sockets.hpp"

#include <functional>
#include <map>

namespace jupyter
{
struct execution; // the cell that runs on this thread

// The content of a reply that reports an error, as JSON text.
std::string error_content(const std::string &name, const std::string &sentence);

class server
{
  public:
    explicit server(const connection &from) : where(from), wires(from)
    {
    }

    // Serves until a shutdown; then the session is closed.
    void serve(session *s);

    // The session calls these, on any thread.
    void publish(const char *type, const char *content);
    char *ask(const char *prompt);

  private:
    using answer = std::function<std::string(const request &)>; // the reply's content, as JSON text
    using answers = std::map<std::string, answer>;              // by the request's type

    void receive(request r);
    void answer_each(queue &from, const answers &known);
    void respond(const request &r, const answer *how);
    void send_reply(const request &r, const std::string &content);
    void send_iopub(const std::string &type, const std::string &parent, std::string content);
    void send_status(const char *state, const request &r);
    void send_idle(const request &r);
    void interrupt(const request &r);
    void comm(request r);

    // cells.cpp
    void serve_shell(shell &own);
    void handle(shell &own, const request &r);
    void execute(shell &own, const request &r);
    void run_cell(shell &own, const request &r);
    void run_beside_a_cell(const request &r);
    std::string run(execution &now);
    bool begins_interrupted(const execution &now, bool silent);

    answers help_answers(), control_answers();
    std::string kernel_info();
    std::string debug(const request &r);
    std::string create_subshell();
    std::string delete_subshell(const request &r);
    std::string list_subshells();
    std::string shut_down(const request &r);

    connection where;
    sockets wires;
    session *the_session = nullptr;
    line_input lines;
    shell main_shell;
    queue help, control;
    std::mutex subshell_lock;
    std::map<std::string, std::shared_ptr<shell>> subshells;

    door entrance; // to the session

    std::mutex cell_lock;  // held while a cell runs
    std::mutex state_lock; // of what follows
    const request *running = nullptr; // its cell runs
    std::string last_cell = "{}", last_debug = "{}"; // headers, as JSON text
    std::string early_interrupt; // the date of one that came while no cell ran
    clock::time_point early_interrupt_came;
};
} // namespace jupyter

#endif
