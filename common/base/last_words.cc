#include "common/base/last_words.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

namespace kintsugi {

namespace {

// This is plain memory without locks, since signal handlers use it.
char process_name[64];
char file_path[PATH_MAX];
void (*before_last_words)() = [] {};
alignas(16) char handler_stack[64 << 10];  // an overflown stack cannot carry its own handler

/// A text of bounded length: the rest is cut off.
class Words {
 public:
  Words& operator<<(std::string_view text) {
    const size_t bytes = std::min(text.size(), sizeof text_ - used_);
    std::memcpy(text_ + used_, text.data(), bytes);
    used_ += bytes;
    return *this;
  }
  Words& operator<<(unsigned long number) {
    char digits[24];
    size_t at = sizeof digits;
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return *this << std::string_view(digits + at, sizeof digits - at);
  }
  std::string_view text() const { return {text_, used_}; }

 private:
  char text_[1024];
  size_t used_ = 0;
};

void write_to(int fd, std::string_view text) {
  // An error has nobody left to be told to.
  if (::write(fd, text.data(), text.size()) < 0) return;
}

/// Runs once: the handler is gone after its first signal, so that on return the signal comes again and has
/// its default effect.
void say_signal(int signal, siginfo_t* info, void*) {
  Words words;
  words << "signal " << static_cast<unsigned long>(signal);
  if (const char* name = sigabbrev_np(signal)) words << " (SIG" << name << ")";
  const bool sent = info->si_code == SI_USER || info->si_code == SI_QUEUE;
  if (sent) words << " sent by process " << static_cast<unsigned long>(info->si_pid);
  if (sent) words << " of user " << static_cast<unsigned long>(info->si_uid);
  write_last_words(words.text());
  ::raise(signal);
}

[[noreturn]] void say_exception() {
  Words words;
  words << "std::terminate";
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& exception) {
      words << ", exception: " << exception.what();
    } catch (...) {
      words << ", unknown exception";
    }
  }
  write_last_words(words.text());
  std::abort();
}

}  // namespace

void install_last_words(std::string_view name) {
  const size_t bytes = std::min(name.size(), sizeof process_name - 1);
  std::memcpy(process_name, name.data(), bytes);
  process_name[bytes] = 0;
  std::signal(SIGPIPE, SIG_IGN);
  std::set_terminate(say_exception);

  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  ::sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = say_signal;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
  for (int signal :
       {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP,   SIGABRT,   SIGBUS,  SIGFPE, SIGUSR1, SIGSEGV, SIGUSR2,
        SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGSTKFLT, SIGPROF, SIGIO,  SIGPWR,  SIGSYS}) {
    struct sigaction before{};
    const bool ignored = ::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) ::sigaction(signal, &action, nullptr);  // nohup means it
  }
}

void set_last_words_file(const std::string& path) {
  if (path.size() >= sizeof file_path) return;
  std::memcpy(file_path, path.c_str(), path.size() + 1);
}

void set_before_last_words(void (*wait)()) {
  before_last_words = wait;
}

void write_last_words(std::string_view text) {
  before_last_words();
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  Words line;
  line << static_cast<unsigned long>(now.tv_sec) << " " << process_name << " (process "
       << static_cast<unsigned long>(::getpid()) << ") ends: " << text << "\n";
  write_to(STDERR_FILENO, line.text());
  if (file_path[0] == 0) return;
  const int fd = ::open(file_path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  write_to(fd, line.text());
  ::close(fd);
}

}  // namespace kintsugi
