// kolo-kernel begins here: Jupyter starts it with a connection file.
#include "jupyter/server.hpp"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <pthread.h>
#include <unistd.h>
#include <xeus/xhelper.hpp>

namespace
{
// A kernel whose Jupyter is gone has nobody to serve, and would run for ever: as ipykernel does, it ends when its
// parent is no longer the one that JPY_PARENT_PID names. The supervisor ends the rest.
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
    for (int number : {SIGINT, SIGCHLD, SIGPIPE}) sigaddset(&blocked, number);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

void publish(void *self, const char *type, const char *content)
{
    static_cast<jupyter::server *>(self)->publish(type, content);
}

char *ask(void *self, const char *prompt)
{
    return static_cast<jupyter::server *>(self)->ask(prompt);
}

void serve(const std::string &file)
{
    jupyter::connection where = jupyter::read_connection(file);
    if (where.in_the_clear())
        std::cerr << "kolo-kernel: the connection to " << where.ip
                  << " is not encrypted: others on the network can read code and output (a kernel manager's "
                     "transport_encryption='required' encrypts it)\n";
    jupyter::server server(where);
    front f = {&server, publish, ask};
    char *problem = nullptr;
    session *s = session_open(&f, "/proc/self/exe", &problem);
    if (!s) throw std::runtime_error(problem);
    server.serve(s);
}

int serve_or_say_why(const std::string &file)
{
    try {
        serve(file);
    } catch (const std::exception &e) {
        std::cerr << "kolo-kernel: " << e.what() << "\n";
        return 1;
    }
    return 0;
}

// libclang goes as deep as the text that it reads, and its own threads have 8 MB, which 60,000 terms of a sum fill. So
// it is to read in the thread that calls it, and every thread of the kernel has a stack that a text of
// growth.c's LARGE bytes cannot fill. Unused pages of a stack take no memory.
void need_deep_stacks()
{
    setenv("LIBCLANG_NOTHREADS", "1", 1);
    pthread_attr_t deep;
    pthread_attr_init(&deep);
    pthread_attr_setstacksize(&deep, 256u << 20);
    pthread_setattr_default_np(&deep);
    pthread_attr_destroy(&deep);
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
    need_deep_stacks();
    watch_parent();
    int status = 1;
    std::thread([&] { status = serve_or_say_why(file); }).join();
    return status;
}
