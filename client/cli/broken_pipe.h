/// The end of a command whose reader has left.
#pragma once

#include <csignal>
#include <cstdlib>

namespace kintsugi::cli {

/// Ends the process as SIGPIPE does, without a word: the reader has seen what it wanted, as in `kintsugi ls / | head`.
[[noreturn]] inline void end_by_broken_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  std::_Exit(128 + SIGPIPE);
}

}  // namespace kintsugi::cli
