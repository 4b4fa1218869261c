#include "client/mount/kernel/child_seat.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <boost/asio/redirect_error.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log/log.h"
#include "common/runtime/task_group.h"

namespace kintsugi::mount {

Result<std::unique_ptr<ChildSeat>> ChildSeat::take() {
  const char* given = std::getenv(kSeatVariable);
  if (given == nullptr) return std::unique_ptr<ChildSeat>();
  int device = -1, state = -1, control = -1, notifier = -1;
  if (std::sscanf(given, "%d,%d,%d,%d", &device, &state, &control, &notifier) != 4) {
    return Status{Code::kInvalidArgument, std::string(kSeatVariable) + " was not set by a supervisor"};
  }
  ::unsetenv(kSeatVariable);
  for (const int descriptor : {device, state, control, notifier})
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
      return status_from_errno(errno, "a descriptor from the supervisor");
  // The parent hears them, and tells us what it wants: a whole group is signalled by terminals and by systemd.
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    ::signal(signal, SIG_IGN);
  KINTSUGI_ASSIGN(auto mapped, SharedState::map(state));
  const bool takes_over = mapped->enter() > 0;
  return std::unique_ptr<ChildSeat>(new ChildSeat(device, std::move(mapped), control, notifier, takes_over));
}

ChildSeat::ChildSeat(int device, std::unique_ptr<SharedState> state, int control, int notifier,
                     bool takes_over)
    : device_(device),
      state_(std::move(state)),
      control_(control),
      notifier_(notifier),
      takes_over_(takes_over) {}

ChildSeat::~ChildSeat() {
  for (const int descriptor : {device_, control_, notifier_})
    if (descriptor >= 0) ::close(descriptor);
}

void ChildSeat::say(char what) {
  // A parent that is gone hears nothing, and nothing depends on it.
  (void)!::send(control_, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

asio::awaitable<int> ChildSeat::serve(runtime::ProductionRuntime& runtime, FileSystem& file_system,
                                      ConnectionOptions options, MountEvents& events) {
  options.adopted = state_->negotiated();
  options.resend_first = takes_over_;
  options.max_in_flight = std::min(options.max_in_flight, SharedState::kJournalWords / 2);
  options.journal = state_->journal();
  options.on_agreed = [this, &events](const Negotiated& negotiated) {
    state_->store(negotiated);
    events.ready();
    say(kSayReady);
  };
  options.on_gone = [&events] { events.gone(); };
  const bool adopted = options.adopted.has_value();
  Connection connection(runtime, std::exchange(device_, -1), file_system, std::move(options));
  runtime::TaskGroup tasks(runtime.runtime());
  asio::posix::stream_descriptor control(runtime.io(), ::dup(control_));
  tasks.spawn(obey(control, connection, events));
  if (adopted) {
    events.ready();
    say(kSayReady);
  }
  // An application that makes one request after the other makes the next one as soon as it has its answer.
  runtime.expects_soon = [&connection] { return connection.in_flight() == 0; };
  auto ending = co_await connection.serve();
  runtime.expects_soon = [] { return false; };
  boost::system::error_code ignored;
  control.cancel(ignored);
  control.close(ignored);
  co_await tasks.join();
  if (!ending) {
    log::error("the mount ends: {}", ending.error().to_string());
    co_return 1;
  }
  handed_over_ = *ending == Ending::kStopped;
  co_return *ending == Ending::kAborted ? kExitAborted : 0;
}

asio::awaitable<void> ChildSeat::obey(asio::posix::stream_descriptor& control, Connection& connection,
                                      MountEvents& events) {
  for (;;) {
    char order = 0;
    boost::system::error_code error;
    const size_t got = co_await control.async_read_some(asio::buffer(&order, 1),
                                                        asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) co_return;
    if (error || got == 0) {
      // Open files continue to work now, but applications will notice the next death of this process.
      log::warning("the parent process is gone: this mount works, but nobody would start it again");
      co_return;
    }
    if (order == kOrderEnd) {
      connection.abandon_all();
      co_return;
    }
    if (const Status status = co_await events.write_back(order == kOrderFlush); !status.ok()) {
      log::error("not everything could be written back: {}", status.to_string());
    }
    if (order == kOrderFlush) say(kSayFlushed);
    if (order == kOrderHandOver) connection.stop();
  }
}

}  // namespace kintsugi::mount
