// A shell: its requests in their order, and which of them a failed cell aborts.
#ifndef KERNEL_JUPYTER_SHELL_HPP
#define KERNEL_JUPYTER_SHELL_HPP

#include "jupyter/message.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace jupyter
{
// Requests that wait for the thread that answers them.
class queue
{
  public:
    void add(request r);
    // The next one; waits for it. Nothing once it is closed and empty.
    std::optional<request> take();
    // Takes no more. `dropping`: those that wait are not answered.
    void close(bool dropping);

  private:
    std::mutex lock;
    std::condition_variable news;
    std::deque<request> waiting;
    bool closed = false;
};

// The session's door: it is closed once no thread uses the session any more.
class door
{
  public:
    // A thread's use of the session. False: the session is being closed, and must not be used.
    class visit
    {
      public:
        explicit visit(door &to) : through(to), inside(to.enter())
        {
        }
        visit(const visit &) = delete;
        ~visit()
        {
            if (inside) through.leave();
        }
        explicit operator bool() const
        {
            return inside;
        }

      private:
        door &through;
        bool inside;
    };

    // Called from within a visit: lets nobody in any more, and waits for all others to leave. False: some have not.
    bool close(std::chrono::seconds most);

  private:
    bool enter();
    void leave();

    std::mutex lock;
    std::condition_variable left;
    unsigned inside = 0;
    bool closed = false;
};

// The last cell that failed with stop_on_error. It aborts the cells that were queued at that moment, and no others.
class failure
{
  public:
    void note(const request &cell, clock::time_point when);
    // Was it sent before the cell failed? The kernel knows what it received until then. A later message may have been
    // on its way. In that case the client's clock shows less time between the two messages than the failed cell took. A
    // message that was sent after the reply shows more, since the reply comes after the cell's end.
    bool aborts(const request &later) const;

  private:
    bool any = false;
    clock::time_point received, failed;
    std::string session;
    std::optional<double> date;
};

// One that a thread of its own serves. The main shell is the one without an id.
struct shell {
    std::string id;
    queue requests;
    failure last;
};
} // namespace jupyter

#endif
