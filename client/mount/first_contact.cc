#include "client/mount/first_contact.h"

#include <cerrno>

#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/runtime/production/run.h"

namespace kintsugi::mount {

namespace {

constexpr Duration kPause = std::chrono::milliseconds(500);
constexpr size_t kMaxText = 1000;

asio::awaitable<Status> ask(runtime::ProductionRuntime& runtime, const MountArguments& arguments,
                            const rpc::Secret& secret) {
  client::Options options;
  options.metaserver = arguments.metaserver;
  client::Client client(runtime.runtime(), std::move(options), secret);
  runtime::TaskGroup tasks(runtime.runtime());
  const TimePoint until = runtime.runtime().clock.now() + arguments.wait;
  Status asked;
  while (true) {
    const auto answer = co_await client.disk_free(client.context().with_deadline(until));
    asked = answer ? Status{} : answer.error();
    const bool may_come = asked.code() == Code::kUnavailable || asked.code() == Code::kDeadlineExceeded;
    if (!may_come || runtime.runtime().clock.now() + kPause >= until) break;
    co_await tasks.sleep_for(kPause);
  }
  co_await tasks.join();
  co_await client.stop();
  co_return asked;
}

/// What the other process says through the pipe: one byte of the code, and the message.
void tell(int pipe, const Status& status) {
  std::string text(1, static_cast<char>(status.code()));
  text += status.message().substr(0, kMaxText);
  (void)!::write(pipe, text.data(), text.size());
}

}  // namespace

Status check_metaserver(const MountArguments& arguments, const rpc::Secret& secret) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return status_from_errno(errno, "pipe");
  const pid_t child = ::fork();
  if (child < 0) return status_from_errno(errno, "fork");
  if (child == 0) {
    const auto tls = runtime::tls_policy(arguments.tls, false);
    if (tls) {
      runtime::ProductionRuntime runtime({}, *tls);
      tell(ends[1], runtime::run_on(runtime, ask(runtime, arguments, secret)));
    } else {
      tell(ends[1], tls.error());
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  char text[kMaxText + 1];
  ssize_t got;
  do
    got = ::read(ends[0], text, sizeof text);
  while (got < 0 && errno == EINTR);
  ::close(ends[0]);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (got <= 0) return {Code::kUnavailable, "the process that asks the metaserver ended without a message"};
  const auto code = static_cast<Code>(text[0]);
  if (code == Code::kOk) return {};
  return {code, fmt::format("nothing is mounted: {}", std::string_view(text + 1, size_t(got) - 1))};
}

}  // namespace kintsugi::mount
