#include "jupyter/sockets.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include <sys/eventfd.h>
#include <unistd.h>

namespace jupyter
{
namespace
{
const int LINGER = 1000; // ms: for a client to take the last messages
// Of iopub, a subscriber: beyond so many unread messages it loses some. output.c keeps the rate low.
const int UNREAD = 10000;

// Reads all that there is now. A message arrives whole or not at all.
bool receive_one(zmq::socket_t &socket, frames &parts)
{
    parts.clear();
    do {
        zmq::message_t part;
        if (!socket.recv(part, parts.empty() ? zmq::recv_flags::dontwait : zmq::recv_flags::none)) return false;
        parts.push_back(std::move(part));
    } while (parts.back().more());
    return true;
}
} // namespace

sockets::sockets(const connection &from)
    : where(from), key(xeus::make_xauthentication(from.scheme, from.key)), shell(context, zmq::socket_type::router),
      control(context, zmq::socket_type::router), input(context, zmq::socket_type::router),
      iopub(context, zmq::socket_type::xpub), heartbeat(context, zmq::socket_type::rep),
      wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (wakeup < 0) throw std::runtime_error(std::string("no eventfd can be had: ") + std::strerror(errno));
    for (zmq::socket_t *router : {&shell, &control, &input}) {
        router->set(zmq::sockopt::router_handover, true); // a client that comes back takes its name over
        router->set(zmq::sockopt::sndhwm, 0);             // a reply is never dropped
    }
    iopub.set(zmq::sockopt::sndhwm, UNREAD);
    iopub.set(zmq::sockopt::xpub_verbose, true); // each subscriber is welcomed, not only the first
    bind(shell, where.shell, "shell");
    bind(control, where.control, "control");
    bind(input, where.input, "stdin");
    bind(iopub, where.iopub, "iopub");
    bind(heartbeat, where.heartbeat, "heartbeat");
}

sockets::~sockets()
{
    stop();
    close(wakeup);
}

void sockets::bind(zmq::socket_t &socket, int port, const char *name)
{
    socket.set(zmq::sockopt::linger, LINGER);
    where.secure(socket);
    std::string endpoint = where.endpoint(port);
    try {
        socket.bind(endpoint);
    } catch (const zmq::error_t &e) {
        throw std::runtime_error(std::string("the ") + name + " socket cannot be bound to " + endpoint + ": " +
                                 e.what());
    }
}

void sockets::serve(receiver to)
{
    receive = std::move(to);
    beating = std::thread([this] {
        while (zmq_proxy(heartbeat.handle(), heartbeat.handle(), nullptr) < 0 && zmq_errno() == EINTR) continue;
        heartbeat.close();
    });
    thread = std::thread([this] { run(); });
}

void sockets::wake()
{
    uint64_t one = 1;
    (void)!write(wakeup, &one, sizeof one);
}

void sockets::send(reply message)
{
    std::lock_guard<std::mutex> guard(lock);
    outgoing.push_back(std::move(message));
    wake();
}

void sockets::stop()
{
    std::lock_guard<std::mutex> alone(ending);
    {
        std::lock_guard<std::mutex> guard(lock);
        stopping = true;
        wake();
    }
    if (thread.joinable()) thread.join();
    if (!beating.joinable()) return;
    context.shutdown();
    beating.join();
    context.close(); // waits until what was sent has gone, LINGER at most
}

zmq::socket_t &sockets::socket_of(channel to)
{
    return to == channel::shell ? shell : to == channel::control ? control : to == channel::input ? input : iopub;
}

void sockets::send_all()
{
    std::deque<reply> now;
    {
        std::lock_guard<std::mutex> guard(lock);
        now.swap(outgoing);
    }
    for (const reply &one : now) {
        frames parts = put_together(one, *key);
        zmq::socket_t &socket = socket_of(one.to);
        for (size_t i = 0; i < parts.size(); i++)
            socket.send(parts[i], i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
}

void sockets::receive_all(zmq::socket_t &socket, channel from)
{
    frames parts;
    while (receive_one(socket, parts)) {
        std::string problem;
        std::optional<xeus::xmessage> message = taken_apart(parts, *key, problem);
        if (message) receive({std::move(*message), from, clock::now()});
        else std::cerr << "kolo-kernel: ignored: " << problem << '\n';
    }
}

// JEP 65: a subscriber knows from it that it will miss nothing from here on.
void sockets::welcome_subscribers()
{
    frames parts;
    while (receive_one(iopub, parts)) {
        std::string event = parts[0].to_string();
        if (event.empty() || event[0] != 1) continue;
        std::string topic = event.substr(1);
        reply welcome = {
            channel::iopub, {topic}, dumped(make_header("iopub_welcome")), "{}", dumped({{"subscription", topic}})};
        std::lock_guard<std::mutex> guard(lock);
        outgoing.push_front(std::move(welcome)); // what waits to be published reaches the subscriber, too
    }
}

// False when it is time to end.
bool sockets::turn()
{
    zmq::pollitem_t items[] = {{nullptr, wakeup, ZMQ_POLLIN, 0},
                               {shell, 0, ZMQ_POLLIN, 0},
                               {control, 0, ZMQ_POLLIN, 0},
                               {input, 0, ZMQ_POLLIN, 0},
                               {iopub, 0, ZMQ_POLLIN, 0}};
    zmq::poll(items, sizeof items / sizeof *items, std::chrono::milliseconds(-1));
    uint64_t woken;
    (void)!read(wakeup, &woken, sizeof woken);
    receive_all(control, channel::control); // an interrupt first
    receive_all(shell, channel::shell);
    receive_all(input, channel::input);
    welcome_subscribers();
    send_all();
    std::lock_guard<std::mutex> guard(lock);
    return !stopping || !outgoing.empty();
}

void sockets::run()
{
    for (bool more = true; more;) {
        try {
            more = turn();
        } catch (const zmq::error_t &e) {
            if (e.num() == ETERM) return;
            if (e.num() != EINTR) std::cerr << "kolo-kernel: a socket failed: " << e.what() << '\n';
        } catch (const std::exception &e) {
            std::cerr << "kolo-kernel: a message failed: " << e.what() << '\n';
        }
    }
    for (zmq::socket_t *socket : {&shell, &control, &input, &iopub}) socket->close();
}
} // namespace jupyter
