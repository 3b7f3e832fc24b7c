// The connection file that Jupyter writes for a kernel: where its sockets are, the key of the messages' signatures, and
// the keys of CurveZMQ.
#ifndef KERNEL_JUPYTER_CONNECTION_HPP
#define KERNEL_JUPYTER_CONNECTION_HPP

#include <string>

#include <zmq.hpp>

namespace jupyter
{
struct connection {
    std::string transport, ip, key, scheme;
    int shell = 0, control = 0, input = 0, iopub = 0, heartbeat = 0; // ports; of ipc, the number behind a socket's path
    std::string public_key, secret_key; // Z85; both empty: no encryption

    std::string endpoint(int port) const; // "tcp://127.0.0.1:5555", "ipc:///run/kernel-1"
    void secure(zmq::socket_t &socket) const; // before it is bound: this end is CurveZMQ's server, where there are keys
    bool in_the_clear() const; // others on the network can read the messages
};

// Throws std::runtime_error with one sentence.
connection read_connection(const std::string &file);
} // namespace jupyter

#endif
