// Jupyter's sockets. One thread owns shell, control, stdin and iopub: it receives whatever comes at once, also while a
// cell runs, and sends what other threads hand over, in the order in which they do. The heartbeat has its own thread.
#ifndef KERNEL_JUPYTER_SOCKETS_HPP
#define KERNEL_JUPYTER_SOCKETS_HPP

#include "jupyter/connection.hpp"
#include "jupyter/message.hpp"

#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace jupyter
{
class sockets
{
  public:
    using receiver = std::function<void(request)>;

    // Binds all of them. Throws std::runtime_error with a sentence.
    explicit sockets(const connection &from);
    ~sockets();

    // Starts the threads. `to` is called on the thread of the sockets: it must not wait for anything.
    void serve(receiver to);
    // Any thread.
    void send(reply message);
    // Any thread but that of the sockets: returns when all that was handed over has been sent, and closes.
    void stop();

  private:
    void bind(zmq::socket_t &socket, int port, const char *name);
    void run();
    bool turn();
    void receive_all(zmq::socket_t &socket, channel from);
    void welcome_subscribers();
    void send_all();
    void wake();
    zmq::socket_t &socket_of(channel to);

    connection where;
    std::unique_ptr<xeus::xauthentication> key;
    zmq::context_t context;
    zmq::socket_t shell, control, input, iopub, heartbeat;
    receiver receive;
    int wakeup; // an eventfd
    std::mutex lock;
    std::deque<reply> outgoing; // guarded by `lock`, as `stopping` is
    bool stopping = false;
    std::mutex ending; // held by stop()
    std::thread thread, beating;
};
} // namespace jupyter

#endif
