// A line for a cell that reads its input: the front end is asked for it.
#ifndef KERNEL_JUPYTER_INPUT_HPP
#define KERNEL_JUPYTER_INPUT_HPP

#include "jupyter/message.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>

namespace jupyter
{
class line_input
{
  public:
    // An input_reply has come. One that answers an earlier question is ignored.
    void answered(const request &reply);
    // Ends the wait for a line in each cell that has begun by now.
    void interrupt();
    // How often that was called. A cell notes it as it begins, so that no interrupt comes too early to be seen.
    unsigned interrupts();
    // The line, or nothing when interrupt() has been called more than `seen` times. `send` sends the question, whose
    // msg_id is `question`.
    std::optional<std::string> ask(const std::string &question, unsigned seen, const std::function<void()> &send);

  private:
    std::mutex lock;
    std::condition_variable news;
    std::string asked; // "": nothing
    std::optional<std::string> line;
    unsigned count = 0;
};
} // namespace jupyter

#endif
