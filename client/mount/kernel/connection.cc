#include "client/mount/kernel/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <sys/uio.h>
#include <unistd.h>

#include "client/mount/kernel/caller_process.h"
#include "common/base/errno_of.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::mount {

namespace {

// The data of a write lies at the start of a page: the header and the arguments end the page before.
constexpr size_t kPageBytes = 4096;
constexpr size_t kReadAt = kPageBytes - kRequestOverhead;

constexpr Duration kHousekeepingInterval = std::chrono::seconds(1);
constexpr size_t kBatch = 16;
constexpr unsigned kTryBatchEvery = 8;
constexpr unsigned kBuffersIdleAfter = 10;  // in such intervals

size_t buffer_bytes(const HandshakeOptions& options) {
  const size_t data = (options.max_write_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return kPageBytes + std::max<size_t>(data, FUSE_MIN_READ_BUFFER);
}

}  // namespace

Connection::Connection(runtime::ProductionRuntime& runtime, int device, FileSystem& file_system,
                       ConnectionOptions options)
    : runtime_(runtime),
      clock_(runtime.runtime().clock),
      file_system_(file_system),
      options_(std::move(options)),
      dispatcher_(file_system),
      device_(runtime.io(), device),
      keep_awake_(clock_, options_.awake_device),
      // One more than wait for answers: there is always one to read interrupts into.
      buffers_(runtime.runtime(), 2 * (options_.large_buffers + 1), buffer_bytes(options_.handshake)),
      changed_(runtime.runtime()) {
  KINTSUGI_ASSERT(options_.large_buffers > 0 && options_.max_in_flight > 0);
  KINTSUGI_ASSERT(options_.journal.empty() || options_.journal.size() >= 2 * options_.max_in_flight);
  for (auto* list : {&free_, &active_})
    list->reserve(2 * options_.max_in_flight);
}

Connection::~Connection() {
  KINTSUGI_ASSERT(active_.empty() && !reading_);
}

asio::awaitable<Result<Ending>> Connection::serve() {
  if (options_.adopted) adopt();
  if (options_.resend_first) ask_to_resend();
  read_more();
  housekeep();
  while (!ending_)
    co_await changed_.wait();
  if (*ending_ == Ending::kStopped) {
    const TimePoint until = clock_.now() + options_.stop_patience;
    for (Request* request : std::vector(active_))
      if (request->opcode == FUSE_SETLKW) leave(*request);
    while (reading_ || !active_.empty()) {
      if (!co_await changed_.wait_until(until)) break;
    }
  }
  for (Request* request : std::vector(active_))
    leave(*request);
  while (reading_ || !active_.empty())
    co_await changed_.wait();
  clock_.cancel(next_housekeeping_);
  if (*ending_ != Ending::kStopped) co_await file_system_.destroyed();
  reading_into_ = {};
  if (!failure_.ok()) co_return failure_;
  co_return *ending_;
}

void Connection::stop() {
  end(Ending::kStopped);
}

void Connection::end(Ending ending) {
  if (ending_) return;
  ending_ = ending;
  boost::system::error_code ignored;
  device_.cancel(ignored);
  if (ending != Ending::kStopped && options_.on_gone) options_.on_gone();
  changed_.notify_all();
}

void Connection::adopt() {
  agreed_ = true;
  dispatcher_.agree(*options_.adopted);
  file_system_.started(*options_.adopted);
}

// Before the first read, or what this process has read already would come a second time.
void Connection::ask_to_resend() {
  if (options_.adopted && !options_.adopted->resend) return fail_journaled();
  const fuse_out_header resend{.len = sizeof resend, .error = kNotifyResend, .unique = 0};
  if (::write(device_.native_handle(), &resend, sizeof resend) < 0) {
    log::warning("the kernel does not send again what the former process left unanswered: {}",
                 std::strerror(errno));
    return fail_journaled();
  }
  for (auto& word : options_.journal)
    word.store(0, std::memory_order_relaxed);
}

void Connection::fail_journaled() {
  for (auto& word : options_.journal)
    if (const uint64_t unique = word.exchange(0, std::memory_order_relaxed); unique != 0)
      write_answer(unique, EIO, nullptr);
}

bool Connection::may_read() {
  if (reading_ || ending_ || active_.size() - abandoned_.requests >= options_.max_in_flight) return false;
  if (active_.size() >= 2 * options_.max_in_flight) return false;
  if (!reading_into_ && large_held_ - abandoned_.large_buffers <= options_.large_buffers) {
    reading_into_ = buffers_.try_acquire();
  }
  return static_cast<bool>(reading_into_);
}

void Connection::read_more() {
  if (!may_read()) return;
  reading_ = true;
  const auto into = reading_into_.span().subspan(kReadAt);
  device_.async_read_some(
      asio::buffer(into.data(), into.size()),
      [this](const boost::system::error_code& error, size_t bytes) { on_read(error, bytes); });
}

void Connection::on_read(const boost::system::error_code& error, size_t bytes) {
  if (!error) {
    on_request(reading_into_.span().subspan(kReadAt, bytes));
    reading_ = false;
    if (batches_pay_ || ++reads_ % kTryBatchEvery == 0) read_batch();
    if (ending_) changed_.notify_all();
    return read_more();
  }
  reading_ = false;
  switch (error.value()) {
    // The request went away while it was read.
    case ENOENT:
    case EINTR:
    case EAGAIN: return read_more();
    case ENODEV: end(Ending::kUnmounted); break;
    case ECONNABORTED: end(Ending::kAborted); break;
    default:
      // Our own cancel() comes here, too.
      if (!ending_) {
        failure_ = status_from_errno(error.value(), "read a request from /dev/fuse");
        end(Ending::kAborted);
      }
  }
  changed_.notify_all();
}

// Under load several requests are there at once, and going through the event loop for each would be a quarter of its cost.
// Else the attempt is one system call in vain, so it is made seldom.
void Connection::read_batch() {
  size_t count = 0;
  while (count < kBatch && may_read()) {
    const auto into = reading_into_.span().subspan(kReadAt);
    const ssize_t bytes = ::read(device_.native_handle(), into.data(), into.size());
    // Whatever it is, the next ordinary read meets it, too.
    if (bytes < 0) break;
    ++count;
    reading_ = true;  // a handler that ends within the call shall not begin to read into the same buffer
    on_request(into.first(static_cast<size_t>(bytes)));
    reading_ = false;
  }
  batches_pay_ = count > 0;
}

void Connection::on_request(std::span<const std::byte> bytes) {
  fuse_in_header head;
  if (bytes.size() < sizeof head)
    return log::error("the kernel sent {} bytes, which is no request", bytes.size());
  std::memcpy(&head, bytes.data(), sizeof head);
  switch (head.opcode) {
    case FUSE_INIT: return on_init(bytes);
    case FUSE_DESTROY: {
      write_answer(head.unique, 0, nullptr);
      return;
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      if (Dispatcher::parse_header(bytes, message_) != 0) return;
      head.opcode == FUSE_INTERRUPT ? on_interrupt(message_) : dispatcher_.forget(message_);
      return;
    default: break;
  }
  if (!agreed_ || !Dispatcher::known(head.opcode)) {
    write_answer(head.unique, agreed_ ? ENOSYS : EIO, nullptr);
    return;
  }
  start(bytes);
}

void Connection::on_init(std::span<const std::byte> bytes) {
  Dispatcher::parse_header(bytes, message_);
  auto shake = shake_hands(message_.body, options_.handshake);
  if (!shake) {
    failure_ = shake.error();
    write_answer(message_.answer_as, EPROTO, nullptr);
    return end(Ending::kAborted);
  }
  Reply reply{};
  reply.put(shake->answer);
  if (!shake->again) {
    dispatcher_.agree(shake->negotiated);
    // Whoever takes over must know it before the kernel does.
    if (options_.on_agreed) options_.on_agreed(shake->negotiated);
    // It comes a second time when the process that had it first died before it answered.
    if (!std::exchange(agreed_, true)) file_system_.started(shake->negotiated);
  }
  write_answer(message_.answer_as, 0, &reply);
}

Request& Connection::acquire() {
  if (free_.empty()) {
    requests_.push_back(std::make_unique<Request>());
    requests_.back()->slot = requests_.size() - 1;
    free_.push_back(requests_.back().get());
  }
  Request& request = *free_.back();
  free_.pop_back();
  request.position = active_.size();
  active_.push_back(&request);
  return request;
}

Request* Connection::find(uint64_t id) {
  for (Request* request : active_)
    if (request->id == id) return request;
  return nullptr;
}

void Connection::start(std::span<const std::byte> bytes) {
  Request& request = acquire();
  const int error = Dispatcher::parse_header(bytes, request);
  if (request.caller.resent) {
    for (Request* other : active_) {
      if (other == &request || other->id != request.id || other->answered) continue;
      // It is being served here, and somebody asked the kernel to send again: the kernel knows it by the new name only.
      other->answer_as = request.answer_as;
      return finish(request);
    }
  }
  request.arrived = request.caller.asked = clock_.now();
  keep_awake_.touch(request.arrived);
  if (!options_.journal.empty()) {
    options_.journal[request.slot].store(request.answer_as, std::memory_order_relaxed);
  }
  if (error != 0) {
    answer(request, error);
    return finish(request);
  }
  if (request.body.size() <= request.small.size()) {
    std::memcpy(request.small.data(), request.body.data(), request.body.size());
    request.body = std::span(request.small).first(request.body.size());
  } else {
    request.large = std::move(reading_into_);
    ++large_held_;
  }
  asio::co_spawn(runtime_.io(), handle(request), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
}

asio::awaitable<void> Connection::handle(Request& request) {
  {
    sight::Task task(options_.context, Dispatcher::site(request.opcode),
                     {static_cast<double>(request.body.size())});
    request.caller.context = task.context();
    const int error = co_await dispatcher_.serve(request);
    if (error != 0) task.set_code(status_from_errno(error, "answered").code());
    const bool delivered = answer(request, error);
    if (!delivered && error == 0) co_await dispatcher_.undo(request);
  }
  finish(request);
}

bool Connection::answer(Request& request, int error) {
  if (request.answered) return false;
  request.answered = true;
  return write_answer(request.answer_as, error, error == 0 ? &request.reply : nullptr);
}

bool Connection::write_answer(uint64_t unique, int error, const Reply* reply) {
  std::array<iovec, kMaxReadRanges + 3> parts;
  fuse_out_header head{.len = sizeof head, .error = -error, .unique = unique};
  size_t count = 0;
  const auto add = [&](const void* data, size_t bytes) {
    if (bytes == 0 && count > 0) return;
    parts[count++] = {const_cast<void*>(data), bytes};
    head.len += static_cast<uint32_t>(bytes);
  };
  parts[count++] = {&head, sizeof head};
  if (reply != nullptr) {
    add(reply->fixed.data(), reply->fixed_bytes);
    add(reply->text.data(), reply->text.size());
    for (const auto& range : reply->data.ranges)
      add(range.data(), range.size());
  }
  ssize_t written;
  do
    written = ::writev(device_.native_handle(), parts.data(), static_cast<int>(count));
  while (written < 0 && errno == EINTR);
  if (written >= 0) return true;
  // ENOENT: the application was killed. ENODEV and so on: unmounted meanwhile.
  if (errno == ENOENT || errno == ENODEV || errno == ECONNABORTED || errno == EPERM) return false;
  log::error("the kernel refused an answer of {} bytes (errno {} to the application): {}", head.len, error,
             std::strerror(errno));
  // It would wait for ever.
  if (reply != nullptr) return write_answer(unique, EIO, nullptr), false;
  return false;
}

void Connection::on_interrupt(const Request& message) {
  Arguments in(message.body);
  const uint64_t id = in.take<fuse_interrupt_in>().unique & ~kUniqueResend;
  Request* request = in.error() == 0 ? find(id) : nullptr;
  // It may have been answered while the interrupt was on its way.
  if (request == nullptr || request->answered || request->interrupt.requested()) return;
  look_after(*request, std::max(clock_.now(), request->arrived + options_.interrupt_patience));
  request->interrupt.request();
}

void Connection::look_after(Request& request, TimePoint due) {
  request.patience = clock_.call_at(due, [this, &request] {
    request.patience = runtime::TimerId::kNone;
    // As in a local file system, a signal that a process handles ends the wait for a lock, and nothing else: programs take EINTR of
    // an fsync for lost data. The kernel tells of the first signal only, and the one that kills may come later.
    if (request.opcode == FUSE_SETLKW || was_killed(request.caller.pid)) return abandon(request);
    look_after(request, clock_.now() + options_.interrupt_patience);
  });
}

void Connection::housekeep() {
  next_housekeeping_ = clock_.call_at(clock_.now() + kHousekeepingInterval, [this] { housekeep(); });
  if (++housekeepings_ % kBuffersIdleAfter == 0) buffers_.give_back_idle();
  if (reading_ || ending_) return;
  // There is no room to read more, and so no interrupt is read, either: those who were killed are found in another way.
  const TimePoint old = clock_.now() - options_.interrupt_patience;
  for (Request* request : std::vector(active_)) {
    if (request->answered || request->arrived > old || !was_killed(request->caller.pid)) continue;
    abandon(*request);
    request->interrupt.request();
  }
}

void Connection::abandon(Request& request) {
  if (request.answered) return;
  request.interrupt.abandon();
  answer(request, EINTR);
  ++abandoned_.requests;
  if (request.large) ++abandoned_.large_buffers;
  read_more();
}

void Connection::leave(Request& request) {
  if (request.interrupt.abandoned()) return;
  request.answered = true;
  request.interrupt.abandon();
  ++abandoned_.requests;
  if (request.large) ++abandoned_.large_buffers;
  request.interrupt.request();
}

void Connection::finish(Request& request) {
  if (request.patience != runtime::TimerId::kNone) clock_.cancel(request.patience);
  request.patience = runtime::TimerId::kNone;
  const bool abandoned = request.interrupt.abandoned();
  const bool left = ending_ == Ending::kStopped && abandoned;
  if (abandoned) --abandoned_.requests;
  if (request.large) {
    --large_held_;
    if (abandoned) --abandoned_.large_buffers;
  }
  if (!options_.journal.empty() && !left) options_.journal[request.slot].store(0, std::memory_order_relaxed);
  request.interrupt = {};
  request.large = {};
  request.answered = false;
  request.reply.clear();
  request.granted = {};
  active_.back()->position = request.position;
  active_[request.position] = active_.back();
  active_.pop_back();
  free_.push_back(&request);
  if (ending_) changed_.notify_all();
  read_more();
}

}  // namespace kintsugi::mount
