#include "jupyter/shell.hpp"

namespace jupyter
{
void queue::add(request r)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!closed) waiting.push_back(std::move(r));
    news.notify_one();
}

std::optional<request> queue::take()
{
    std::unique_lock<std::mutex> guard(lock);
    news.wait(guard, [this] { return closed || !waiting.empty(); });
    if (waiting.empty()) return {};
    request r = std::move(waiting.front());
    waiting.pop_front();
    return r;
}

void queue::close(bool dropping)
{
    std::lock_guard<std::mutex> guard(lock);
    closed = true;
    if (dropping) waiting.clear();
    news.notify_all();
}

bool door::enter()
{
    std::lock_guard<std::mutex> guard(lock);
    if (!closed) inside++;
    return !closed;
}

void door::leave()
{
    std::lock_guard<std::mutex> guard(lock);
    inside--;
    left.notify_all();
}

bool door::close(std::chrono::seconds most)
{
    std::unique_lock<std::mutex> guard(lock);
    closed = true;
    return left.wait_for(guard, most, [this] { return inside == 1; });
}

void failure::note(const request &cell, clock::time_point when)
{
    any = true;
    received = cell.received;
    failed = when;
    session = text_in(cell.header(), "session");
    date = cell.date();
}

bool failure::aborts(const request &later) const
{
    if (!any) return false;
    if (later.received < failed) return true;
    std::optional<double> sent = later.date();
    if (!date || !sent || text_in(later.header(), "session") != session) return false;
    double apart = *sent - *date;
    return apart >= 0 && apart < std::chrono::duration<double>(failed - received).count();
}
} // namespace jupyter
