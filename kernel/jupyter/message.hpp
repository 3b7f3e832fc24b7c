// Messages of Jupyter's protocol as they travel: identities, a delimiter, a signature, then header, parent header,
// metadata and content as JSON, then buffers. A message here is xeus's; this signs, checks and takes apart.
#ifndef KERNEL_JUPYTER_MESSAGE_HPP
#define KERNEL_JUPYTER_MESSAGE_HPP

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <xeus/xauthentication.hpp>
#include <xeus/xmessage.hpp>
#include <zmq.hpp>

namespace jupyter
{
using clock = std::chrono::steady_clock;
using frames = std::vector<zmq::message_t>;

enum class channel { shell, control, input, iopub };

// The text under that name; "" when there is none, or something else.
std::string text_in(const nl::json &object, const char *name);

// A request that the kernel has received.
struct request {
    xeus::xmessage message;
    channel from;
    clock::time_point received;

    const nl::json &header() const
    {
        return message.header();
    }
    const nl::json &content() const
    {
        return message.content();
    }
    const std::string &type() const
    {
        return message.header()["msg_type"].get_ref<const std::string &>();
    }
    // Seconds since 1970 by the client's clock: for differences between one client's messages. Nothing when the client
    // has not said.
    std::optional<double> date() const;
    // The header's "subshell_id"; "" for the main shell.
    std::string subshell() const
    {
        return text_in(header(), "subshell_id");
    }
};

// A message that the kernel sends. `content` is JSON text.
struct reply {
    channel to;
    std::vector<std::string> identities; // of the client; of iopub, the topic
    std::string header, parent, content, metadata = "{}";
};

// A header of this kernel's. Unlike xeus's it names the protocol's version that this server speaks.
nl::json make_header(const std::string &type);
extern const char *const PROTOCOL;

std::string dumped(const nl::json &value); // bytes that are not UTF-8 are replaced, not refused

// A message of the right form and signature. Nothing, and a sentence, otherwise.
std::optional<xeus::xmessage> taken_apart(const frames &parts, const xeus::xauthentication &key, std::string &problem);
frames put_together(const reply &message, const xeus::xauthentication &key);
} // namespace jupyter

#endif
