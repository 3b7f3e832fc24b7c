#include "jupyter/message.hpp"

#include <cstdlib>
#include <ctime>
#include <mutex>

#include <xeus/xguid.hpp>
#include <xeus/xkernel.hpp>

namespace jupyter
{
const char *const PROTOCOL = "5.5"; // 5.4: iopub_welcome; 5.5: subshells

namespace
{
const char DELIMITER[] = "<IDS|MSG>";
const size_t JSON_PARTS = 4;

std::string text_of(const zmq::message_t &part)
{
    return std::string(static_cast<const char *>(part.data()), part.size());
}

xeus::xraw_buffer raw(const zmq::message_t &part)
{
    return xeus::xraw_buffer(static_cast<const unsigned char *>(part.data()), part.size());
}

zmq::message_t part_of(const std::string &text)
{
    return zmq::message_t(text.data(), text.size());
}

// In a time that does not tell how much of it was right.
bool equal(const std::string &a, const std::string &b)
{
    unsigned char different = a.size() != b.size();
    for (size_t i = 0; i < a.size() && i < b.size(); i++) different |= static_cast<unsigned char>(a[i] ^ b[i]);
    return !different;
}

} // namespace

std::string text_in(const nl::json &object, const char *name)
{
    auto at = object.find(name);
    return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string dumped(const nl::json &value)
{
    return value.dump(-1, ' ', false, nl::json::error_handler_t::replace);
}

// xeus's own is for one thread: it writes the date in the C library's one place for it.
nl::json make_header(const std::string &type)
{
    static std::mutex lock;
    std::lock_guard<std::mutex> guard(lock);
    static const std::string user = xeus::get_user_name(), session = xeus::new_xguid().c_str();
    nl::json header = xeus::make_header(type, user, session);
    header["version"] = PROTOCOL;
    return header;
}

std::optional<double> request::date() const
{
    std::string date = text_in(header(), "date");
    std::tm day = {}, zone = {};
    const char *rest = strptime(date.c_str(), "%Y-%m-%dT%H:%M:%S", &day);
    if (!rest) return {};
    char *end = const_cast<char *>(rest);
    double fraction = *rest == '.' ? std::strtod(rest, &end) : 0;
    if (!strptime(end, "%z", &zone)) zone.tm_gmtoff = 0; // no zone is UTC
    return static_cast<double>(timegm(&day)) + fraction - static_cast<double>(zone.tm_gmtoff);
}

std::optional<xeus::xmessage> taken_apart(const frames &parts, const xeus::xauthentication &key, std::string &problem)
{
    size_t first = 0;
    std::vector<std::string> identities;
    while (first < parts.size() && parts[first].to_string_view() != DELIMITER)
        identities.push_back(text_of(parts[first++]));
    if (parts.size() < first + 2 + JSON_PARTS) {
        problem = "a message has " + std::to_string(parts.size()) + " parts, and too few of them follow " + DELIMITER;
        return {};
    }
    const zmq::message_t *at = &parts[first + 2];
    std::string wanted = key.sign(raw(at[0]), raw(at[1]), raw(at[2]), raw(at[3])); // empty: the session has no key
    if (!wanted.empty() && !equal(wanted, text_of(parts[first + 1]))) {
        problem = "a message has a wrong signature: it was not sent by a client that knows the connection file";
        return {};
    }
    nl::json part[JSON_PARTS];
    for (size_t i = 0; i < JSON_PARTS; i++) {
        part[i] = nl::json::parse(text_of(at[i]), nullptr, false);
        if (part[i].is_object()) continue;
        problem = "part " + std::to_string(i + 1) + " of a message is no JSON object";
        return {};
    }
    if (text_in(part[0], "msg_type").empty() || text_in(part[0], "msg_id").empty()) {
        problem = "a message's header lacks msg_type or msg_id";
        return {};
    }
    xeus::buffer_sequence buffers;
    for (size_t i = first + 2 + JSON_PARTS; i < parts.size(); i++) {
        const char *data = static_cast<const char *>(parts[i].data());
        buffers.emplace_back(data, data + parts[i].size());
    }
    return xeus::xmessage(identities, std::move(part[0]), std::move(part[1]), std::move(part[2]), std::move(part[3]),
                          std::move(buffers));
}

frames put_together(const reply &message, const xeus::xauthentication &key)
{
    frames parts;
    for (const std::string &one : message.identities) parts.push_back(part_of(one));
    parts.push_back(part_of(DELIMITER));
    zmq::message_t header = part_of(message.header), parent = part_of(message.parent),
                   metadata = part_of(message.metadata), content = part_of(message.content);
    parts.push_back(part_of(key.sign(raw(header), raw(parent), raw(metadata), raw(content))));
    for (zmq::message_t *one : {&header, &parent, &metadata, &content}) parts.push_back(std::move(*one));
    return parts;
}
} // namespace jupyter
