#include "common/rpc/stream_state.h"

#include <algorithm>

namespace kintsugi::rpc {
namespace {

/// The most that one write takes, so that a slow peer still shows progress to the watchdog.
constexpr size_t kMaxWriteBytes = 2 << 20;

}  // namespace

Stream::State::State(std::shared_ptr<BufferedConnection> taken, runtime::Clock& clock, Method method,
                     uint64_t request_id, TimePoint deadline)
    : connection(std::move(taken)),
      peer(connection->peer()),
      clock(clock),
      method(method),
      request_id(request_id),
      deadline(deadline),
      last_progress(clock.now()) {}

Stream::State::~State() {
  clock.cancel(timer);
}

void Stream::State::watch() {
  TimePoint due = std::min(deadline, clock.now() + idle_limit);
  if (pending > 0) due = std::min(due, last_progress + idle_limit);
  if (timer != runtime::TimerId::kNone) clock.cancel(timer);
  timer_due = due;
  timer = clock.call_at(due, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->on_timer();
  });
}

void Stream::State::on_timer() {
  timer = runtime::TimerId::kNone;
  if (!connection || !connection->is_open()) return;
  TimePoint now = clock.now();
  if (now >= deadline) {
    broken = Status{Code::kDeadlineExceeded, "deadline passed"};
  } else if (pending > 0 && now - last_progress >= idle_limit) {
    broken = Status{Code::kDeadlineExceeded, fmt::format("no progress for {} s", idle_limit / 1s)};
  }
  if (broken.ok()) return watch();
  connection->close();
}

void Stream::State::set_deadline(TimePoint earlier) {
  deadline = std::min(deadline, earlier);
  if (deadline < timer_due) watch();
}

void Stream::State::set_idle_limit(Duration limit) {
  idle_limit = limit;
  if (last_progress + limit < timer_due) watch();
}

void Stream::State::begin_operation() {
  // A slow handler is no idle peer: time counts only while an operation is pending.
  if (pending++ == 0) last_progress = clock.now();
}

Status Stream::State::end_operation(Status status) {
  --pending;
  if (status.ok()) {
    last_progress = clock.now();
    return status;
  }
  if (broken.ok()) broken = std::move(status);
  if (connection) connection->close();
  return broken.with_context(peer).with_context(method_name(method));
}

asio::awaitable<Status> Stream::State::send_frame(FrameHeader header,
                                                  const google::protobuf::MessageLite& message,
                                                  std::span<const asio::const_buffer> payload) {
  size_t payload_bytes = 0;
  for (const asio::const_buffer& buffer : payload)
    payload_bytes += buffer.size();
  size_t message_bytes = message.ByteSizeLong();
  if (payload_bytes > kMaxPayloadBytes || message_bytes > kMaxHeaderBytes) {
    co_return Status{Code::kLimitExceeded,
                     fmt::format("frame of {} header and {} payload bytes exceeds the limits", message_bytes,
                                 payload_bytes)};
  }
  if (!connection || sent_end) co_return Status{Code::kInvalidArgument, "send after the end of the stream"};
  header.method = method;
  header.request_id = request_id;
  header.flags |= kFlagStream;
  header.payload_bytes = static_cast<uint32_t>(payload_bytes);
  if ((header.flags & kFlagEnd) != 0) sent_end = true;

  scratch.resize(kFrameHeaderBytes + message_bytes);
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(scratch.data() + kFrameHeaderBytes));
  auto fixed = encode_frame_header(header, std::as_bytes(std::span(scratch)).subspan(kFrameHeaderBytes));
  std::memcpy(scratch.data(), fixed.data(), fixed.size());

  connection->marks().sent(header, scratch.size() + payload_bytes);
  runtime::Wait wait(sending, send_wait, target, target_span);
  begin_operation();
  gather.assign(1, asio::const_buffer(scratch.data(), scratch.size()));
  size_t gathered_bytes = scratch.size();
  for (asio::const_buffer rest : payload) {
    while (rest.size() > 0) {
      size_t part = std::min(rest.size(), kMaxWriteBytes);
      if (gather.size() == runtime::Connection::kMaxGather ||
          gathered_bytes + part > kMaxWriteBytes + scratch.size()) {
        Status written = co_await connection->write(gather);
        if (!written.ok()) co_return wait.finish(end_operation(std::move(written)));
        last_progress = clock.now();
        gather.clear();
        gathered_bytes = 0;
      }
      gather.emplace_back(rest.data(), part);
      gathered_bytes += part;
      rest += part;
    }
  }
  Status written = co_await connection->write(gather);
  // Frames without a payload keep a stream alive, and say nothing of progress.
  if (written.ok() && payload_bytes > 0) {
    runtime::advance(sending, payload_bytes);
    runtime::count_bytes(sending, target, 0, payload_bytes);
  }
  co_return wait.finish(end_operation(std::move(written)));
}

void Stream::State::close() {
  if (broken.ok()) broken = Status{Code::kCancelled, "stream closed"};
  if (connection) connection->close();
}

}  // namespace kintsugi::rpc
