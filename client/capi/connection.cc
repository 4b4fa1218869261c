#include "client/capi/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "client/capi/file.h"
#include "common/base/assert.h"
#include "common/base/signals_blocked.h"

namespace kintsugi::capi {
namespace {

Status ended() {
  return {Code::kBadHandle, "the connection has ended"};
}

}  // namespace

Connection::Connection(ConnectionSettings settings) : settings_(std::move(settings)) {
  const SignalsBlocked blocked;
  client_ = std::make_unique<client::BlockingClient>(settings_.client, settings_.secret, settings_.tls);
}

Connection::~Connection() {
  KINTSUGI_ASSERT(client_ == nullptr);
}

Result<std::shared_ptr<Connection>> Connection::connect(ConnectionSettings settings) {
  const std::shared_ptr<Connection> connection(new Connection(std::move(settings)));
  const Status begun = connection->client_->run(connection->begin());
  if (begun.ok()) return connection;
  (void)connection->disconnect();
  return begun;
}

asio::awaitable<Status> Connection::begin() {
  thread_ = std::this_thread::get_id();
  const auto root = co_await client().stat("/");
  if (!root) co_return root.error();
  files_ = client().open_files(settings_.files);
  co_return Status{};
}

Status Connection::check_may_wait() const {
  if (!is_own_thread()) return {};
  return {Code::kDeadlock, "a blocking call from a callback would wait for its own thread"};
}

bool Connection::enter() {
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  ++calls_;
  return true;
}

void Connection::leave() {
  const std::lock_guard lock(mutex_);
  if (--calls_ == 0) left_.notify_all();
}

Outcome Connection::call(asio::awaitable<Outcome> task) {
  if (!enter()) return ended();
  const Status may_wait = check_may_wait();
  const Outcome outcome = may_wait.ok() ? client_->run(std::move(task)) : Outcome(may_wait);
  leave();
  return outcome;
}

Status Connection::submit(const std::shared_ptr<Connection>& self, asio::awaitable<Outcome> task,
                          kintsugi_callback callback, void* user) {
  {
    const std::lock_guard lock(self->mutex_);
    if (self->ending_) return ended();
    if (self->outstanding_ >= self->settings_.max_outstanding)
      return {Code::kWouldBlock, "too many asynchronous calls have not ended"};
    ++self->outstanding_;
    ++self->calls_;
  }
  const auto finish = [self, callback, user](std::exception_ptr error, Outcome outcome) {
    if (error) outcome = Status{Code::kInternal, "an exception left a call"};
    {
      // The callback may begin the next one in this one's place.
      const std::lock_guard lock(self->mutex_);
      --self->outstanding_;
    }
    callback(user, to_result(outcome));
    self->leave();
  };
  auto& io = self->client_->runtime().io();
  asio::post(
      io, [&io, task = std::move(task), finish]() mutable { asio::co_spawn(io, std::move(task), finish); });
  return {};
}

Status Connection::disconnect() {
  {
    std::unique_lock lock(mutex_);
    if (ending_) return ended();
    KINTSUGI_TRY(check_may_wait());
    ending_ = true;
    left_.wait(lock, [this] { return calls_ == 0; });
  }
  const Status status = client_->run(end());
  client_.reset();
  return status;
}

asio::awaitable<Status> Connection::end() {
  Status first;
  while (!open_.empty()) {
    const std::shared_ptr<File> file = *open_.begin();
    const auto closed = co_await File::close(file);
    if (!closed && first.ok()) first = closed.error();
  }
  if (files_) {
    const Status stopped = co_await files_->stop();
    if (first.ok()) first = stopped;
    files_.reset();
  }
  co_return first;
}

}  // namespace kintsugi::capi
