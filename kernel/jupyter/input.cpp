#include "jupyter/input.hpp"

namespace jupyter
{
// A console's input_reply has no parent: it is taken to answer what is asked.
void line_input::answered(const request &reply)
{
    std::string question = text_in(reply.message.parent_header(), "msg_id");
    std::lock_guard<std::mutex> guard(lock);
    if (asked.empty() || line || (!question.empty() && question != asked)) return;
    line = text_in(reply.content(), "value");
    news.notify_all();
}

void line_input::interrupt()
{
    std::lock_guard<std::mutex> guard(lock);
    count++;
    news.notify_all();
}

unsigned line_input::interrupts()
{
    std::lock_guard<std::mutex> guard(lock);
    return count;
}

std::optional<std::string> line_input::ask(const std::string &question, unsigned seen,
                                           const std::function<void()> &send)
{
    std::unique_lock<std::mutex> guard(lock);
    if (count != seen) return {};
    line.reset();
    asked = question;
    send();
    news.wait(guard, [&] { return line || count != seen; });
    asked.clear();
    return line;
}
} // namespace jupyter
