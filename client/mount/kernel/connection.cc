#include "client/mount/kernel/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <unistd.h>

#include "common/log/log.h"
#include "common/rpc/follower.h"
#include "monitoring/sight/module.h"

namespace kintsugi::mount {

namespace {

// The data of a write lies at the start of a page: the header and the arguments end the page before.
constexpr size_t kPageBytes = 4096;
constexpr size_t kReadAt = kPageBytes - kRequestOverhead;

constexpr Duration kHousekeepingInterval = std::chrono::seconds(1);
constexpr size_t kBatch = 16;
constexpr unsigned kTryBatchEvery = 8;
constexpr unsigned kBuffersIdleAfter = 10;  // rounds of housekeeping

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
      replies_(device),
      keep_awake_(clock_, options_.awake_device),
      // One more than wait for answers: there is always one to read interrupts into.
      buffers_(runtime.runtime(), 2 * (options_.large_buffers + 1), buffer_bytes(options_.handshake)),
      requests_({.requests = options_.max_in_flight, .large_buffers = options_.large_buffers},
                options_.journal),
      interrupts_(clock_, requests_, options_.interrupt_patience, *this),
      changed_(runtime.runtime()) {}

Connection::~Connection() {
  KINTSUGI_ASSERT(requests_.count() == 0 && !reading_);
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
    for (Request* request : std::vector(requests_.all()))
      if (request->operation->gives_up == GivesUp::kAtAnySignal) leave(*request);
    while (reading_ || requests_.count() > 0) {
      if (!co_await changed_.wait_until(until)) break;
    }
  }
  for (Request* request : std::vector(requests_.all()))
    leave(*request);
  while (reading_ || requests_.count() > 0)
    co_await changed_.wait();
  clock_.cancel(next_housekeeping_);
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
  const bool resends = (!options_.adopted || options_.adopted->resend) && replies_.ask_to_resend();
  for (const uint64_t unanswered : requests_.take_noted())
    if (!resends) replies_.write(unanswered, EIO, nullptr);
}

bool Connection::may_read() {
  if (reading_ || ending_ || !requests_.has_room()) return false;
  if (!reading_into_ && requests_.has_room_for_large()) reading_into_ = buffers_.try_acquire();
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

// Under load several requests are there at once, and going through the event loop for each would be a quarter of its
// cost. Else the attempt is one system call in vain, so it is made seldom.
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
    case FUSE_DESTROY: replies_.write(head.unique, 0, nullptr); return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      if (parse_header(bytes, message_) != 0) return;
      head.opcode == FUSE_INTERRUPT ? interrupts_.on_interrupt(message_) : dispatcher_.forget(message_);
      return;
    default: break;
  }
  if (!agreed_ || operation_of(head.opcode) == nullptr) {
    replies_.write(head.unique, agreed_ ? ENOSYS : EIO, nullptr);
    return;
  }
  start(bytes);
}

void Connection::on_init(std::span<const std::byte> bytes) {
  parse_header(bytes, message_);
  auto shake = shake_hands(message_.body, options_.handshake);
  if (!shake) {
    failure_ = shake.error();
    replies_.write(message_.answer_as, EPROTO, nullptr);
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
  replies_.write(message_.answer_as, 0, &reply);
}

void Connection::start(std::span<const std::byte> bytes) {
  Request& request = requests_.begin();
  const int error = parse_header(bytes, request);
  if (request.caller.resent) {
    for (Request* other : requests_.all()) {
      if (other == &request || other->id != request.id || other->answered) continue;
      // It is being served here, and somebody asked the kernel to send again: the kernel knows it by the new name only.
      other->answer_as = request.answer_as;
      return finish(request);
    }
  }
  request.arrived = request.caller.asked = clock_.now();
  keep_awake_.touch(request.arrived);
  requests_.note(request);
  if (error != 0) {
    answer(request, error);
    return finish(request);
  }
  requests_.hold_body(request, reading_into_);
  asio::co_spawn(runtime_.io(), handle(request), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
}

asio::awaitable<void> Connection::handle(Request& request) {
  {
    // Whoever traces the mount may have begun since the context was made.
    const Context context = rpc::own_work(options_.context);
    sight::Task task(context, request.operation->site, {static_cast<double>(request.body.size())});
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
  return replies_.write(request.answer_as, error, &request.reply);
}

void Connection::housekeep() {
  next_housekeeping_ = clock_.call_at(clock_.now() + kHousekeepingInterval, [this] { housekeep(); });
  if (++housekeepings_ % kBuffersIdleAfter == 0) buffers_.give_back_idle();
  if (reading_ || ending_) return;
  // There is no room to read more, and so no interrupt is read, either: those who were killed are found in another way.
  interrupts_.look_for_killed();
}

void Connection::abandon(Request& request) {
  if (request.answered) return;
  requests_.give_up(request);
  answer(request, EINTR);
  read_more();
}

void Connection::leave(Request& request) {
  if (request.interrupt.abandoned()) return;
  request.answered = true;
  requests_.give_up(request);
  request.interrupt.request();
}

void Connection::finish(Request& request) {
  interrupts_.forget(request);
  const bool is_left = ending_ == Ending::kStopped && request.interrupt.abandoned();
  requests_.end(request, is_left);
  if (ending_) changed_.notify_all();
  read_more();
}

}  // namespace kintsugi::mount
