#include "tracing/agent/signalled.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <semaphore.h>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"
#include "tracing/agent/agent.h"
#include "tracing/records/trace_memory.h"
#include "tracing/records/trace_signal.h"

namespace kintsugi::tracing {
namespace {

using std::chrono::milliseconds;

/// Of a signal that says nothing, as `kill` sends it.
constexpr milliseconds kLimitOfASignal = std::chrono::seconds(10);

/// All that the handler touches. They are never destroyed.
sem_t came;
std::atomic<int> wanted_ms{0};

void take_signal(int, siginfo_t* about, void*) {
  const int before = errno;
  wanted_ms.store(about->si_code == SI_QUEUE ? about->si_value.sival_int : 0, std::memory_order_relaxed);
  ::sem_post(&came);
  errno = before;
}

void change_mask(int how) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, kTraceSignal);
  ::pthread_sigmask(how, &ours, nullptr);
}

void serve_signals() {
  ::pthread_setname_np(::pthread_self(), "trace-signal");
  change_mask(SIG_UNBLOCK);
  while (true) {
    if (::sem_wait(&came) != 0) continue;  // its own handler interrupted it
    const milliseconds wanted(wanted_ms.load(std::memory_order_relaxed));
    const Duration limit = wanted <= milliseconds(0) ? Duration(kLimitOfASignal)
                                                     : std::min<Duration>(wanted, AttachOptions::kMostTime);
    const Status begun = Agent::of_process().attach(
        {.session = {.directory = default_trace_directory(), .start = std::string(kEveryFunction)},
         .limit = limit});
    if (begun.ok())
      log::info("tracing: a signal came");
    else
      log::warning("tracing: a signal came, and nothing begins: {}", begun.to_string());
  }
}

bool listen() {
  ::sem_init(&came, 0, 0);
  try {
    const SignalsBlocked blocked;
    std::thread(serve_signals).detach();
  } catch (const std::system_error& failure) {
    log::warning("tracing: signals are not listened for: {}", failure.what());
    return false;
  }
  block_trace_signal();
  struct sigaction action{};
  action.sa_sigaction = take_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  return ::sigaction(kTraceSignal, &action, nullptr) == 0;
}

}  // namespace

void block_trace_signal() {
  change_mask(SIG_BLOCK);
}

void listen_for_signal() {
  [[maybe_unused]] static const bool listens = listen();
}

}  // namespace kintsugi::tracing
