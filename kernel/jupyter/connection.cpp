#include "jupyter/connection.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace nl = nlohmann;

namespace jupyter
{
namespace
{
const size_t Z85_KEY = 40; // characters

std::string text_of(const nl::json &file, const char *name, const char *usual)
{
    auto at = file.find(name);
    if (at == file.end() || at->is_null()) return usual;
    if (!at->is_string())
        throw std::runtime_error(std::string("the connection file's \"") + name + "\" must be text, got " + at->dump());
    return at->get<std::string>();
}

int port_of(const nl::json &file, const char *name)
{
    auto at = file.find(name);
    std::string got = at == file.end() ? "nothing" : at->dump();
    bool whole = at != file.end() && at->is_number_integer();
    if (!whole || at->get<long long>() < 1 || at->get<long long>() > 65535)
        throw std::runtime_error(std::string("the connection file's \"") + name +
                                 "\" must be a number from 1 to 65535, got " + got);
    return at->get<int>();
}

// The sentences name no key: the secret one must not reach a log.
void check_keys(const connection &c)
{
    if (c.public_key.empty() != c.secret_key.empty())
        throw std::runtime_error(std::string("the connection file has \"curve_") +
                                 (c.public_key.empty() ? "secretkey\" without \"curve_publickey\""
                                                       : "publickey\" without \"curve_secretkey\"") +
                                 ": both or neither must be there");
    if (c.secret_key.empty()) return;
    if (!zmq_has("curve"))
        throw std::runtime_error("libzmq was built without CurveZMQ, and the connection file wants it");
    char derived[Z85_KEY + 1];
    bool whole = c.public_key.size() == Z85_KEY && c.secret_key.size() == Z85_KEY;
    if (!whole || zmq_curve_public(derived, c.secret_key.c_str()) != 0 || c.public_key != derived)
        throw std::runtime_error("the connection file's CurveZMQ keys must be a pair, 40 characters of Z85 each");
}

void check_policy(const connection &c)
{
    const char *policy = std::getenv("KOLO_TRANSPORT_ENCRYPTION");
    if (!policy || !*policy || !std::strcmp(policy, "auto")) return;
    if (std::strcmp(policy, "required"))
        throw std::runtime_error(std::string("KOLO_TRANSPORT_ENCRYPTION must be auto or required, got ") + policy);
    if (c.secret_key.empty())
        throw std::runtime_error("encryption is required (KOLO_TRANSPORT_ENCRYPTION), and the connection file has no "
                                 "CurveZMQ keys: start the kernel by a manager with transport_encryption='required'");
}
} // namespace

std::string connection::endpoint(int port) const
{
    return transport + "://" + ip + (transport == "ipc" ? "-" : ":") + std::to_string(port);
}

void connection::secure(zmq::socket_t &socket) const
{
    if (secret_key.empty()) return;
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_publickey, public_key);
    socket.set(zmq::sockopt::curve_secretkey, secret_key);
}

bool connection::in_the_clear() const
{
    bool here = transport == "ipc" || ip == "localhost" || ip == "::1" || ip.rfind("127.", 0) == 0;
    return secret_key.empty() && !here;
}

connection read_connection(const std::string &file)
{
    std::ifstream stream(file);
    if (!stream) throw std::runtime_error("the connection file " + file + " cannot be read: " + std::strerror(errno));
    nl::json content = nl::json::parse(stream, nullptr, false);
    if (!content.is_object()) throw std::runtime_error("the connection file " + file + " is no JSON object");
    connection c;
    c.transport = text_of(content, "transport", "tcp");
    c.ip = text_of(content, "ip", "127.0.0.1");
    c.key = text_of(content, "key", "");
    c.scheme = text_of(content, "signature_scheme", "hmac-sha256");
    if (c.transport != "tcp" && c.transport != "ipc")
        throw std::runtime_error("the connection file's \"transport\" must be tcp or ipc, got " + c.transport);
    c.shell = port_of(content, "shell_port");
    c.control = port_of(content, "control_port");
    c.input = port_of(content, "stdin_port");
    c.iopub = port_of(content, "iopub_port");
    c.heartbeat = port_of(content, "hb_port");
    c.public_key = text_of(content, "curve_publickey", "");
    c.secret_key = text_of(content, "curve_secretkey", "");
    check_keys(c);
    check_policy(c);
    return c;
}
} // namespace jupyter
