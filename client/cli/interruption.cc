#include "client/cli/interruption.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/assert.h"

namespace kintsugi::cli {
namespace {

/// To give up an upload takes one call to the metaserver; who interrupts a command does not want to wait for more.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};
constexpr int kStatusOfSignals = 128;  ///< a shell adds it to the signal's number

// A signal handler reaches nothing but globals.
std::atomic<int> caught = 0;  ///< number of the first signal; 0: none came
/// An eventfd, written when a signal comes or the command ends. It is never closed: a handler may be about to write.
int event = -1;
std::array<bool, kSignals.size()> taken{};

/// The next signal ends the process, whatever it is doing.
void restore_defaults() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (taken[i]) std::signal(kSignals[i], SIG_DFL);
  }
}

void wake() {
  const uint64_t one = 1;
  while (::write(event, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void on_signal(int signal) {
  const int error = errno;
  restore_defaults();
  int none = 0;
  if (caught.compare_exchange_strong(none, signal)) wake();
  errno = error;
}

void take_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction before{};
    ::sigaction(kSignals[i], nullptr, &before);
    taken[i] = before.sa_handler != SIG_IGN;
  }
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (taken[i]) ::sigaction(kSignals[i], &action, nullptr);
  }
}

[[noreturn]] void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  ::raise(signal);
  ::_exit(kStatusOfSignals + signal);  // the signal is blocked, so only its number can be passed on
}

}  // namespace

Interruption::Interruption(std::function<void()> cancel) : cancel_(std::move(cancel)) {
  if (event < 0) event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KINTSUGI_ASSERT(event >= 0);
  // A command before this one may have left its count in it.
  uint64_t count = 0;
  (void)!::read(event, &count, sizeof count);
  caught = 0;
  take_signals();
  watcher_ = std::thread([this] { watch(); });
}

Interruption::~Interruption() {
  restore_defaults();
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  wake();
  watcher_.join();
}

bool Interruption::requested() const {
  return caught != 0;
}

int Interruption::descriptor() const {
  return event;
}

void Interruption::end_if_requested() const {
  if (requested()) end_by(caught);
}

void Interruption::watch() {
  pollfd wanted{.fd = event, .events = POLLIN, .revents = 0};
  while (::poll(&wanted, 1, -1) < 0 && errno == EINTR) {
  }
  if (!requested()) return;  // the command has ended
  cancel_();
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kPatience, [this] { return over_; })) end_by(caught);
}

}  // namespace kintsugi::cli
