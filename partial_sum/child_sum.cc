#include "partial_sum/child_sum.h"

#include <cstring>

#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::partial_sum {
namespace {

constexpr sight::Site kChild{"partial_sum.child_sum", {"bytes", "slice_bytes"}, {"network_seconds"}};
/// Payload of a frame; senders keep to it.
constexpr uint32_t kMaxFrameBytes = 1 << 20;

SumMatrix matrix_of(const proto::RepairNode& node, uint32_t sums, uint32_t rows) {
  const uint32_t outputs = outputs_of(node, rows);
  if (node.combine().empty()) return SumMatrix::identity(sums, outputs);
  return SumMatrix(node.combine(), sums, outputs);
}

}  // namespace

ChildSum::ChildSum(const runtime::Runtime& runtime, rpc::Client& client, proto::PartialSumRequest request,
                   Place place)
    : runtime_(runtime),
      client_(client),
      window_(place.window),
      contributor_(place.contributor),
      pace_(place.pace),
      request_(std::move(request)),
      matrix_(matrix_of(request_.node(), window_.range().sums, window_.range().rows)) {}

asio::awaitable<Status> ChildSum::run(Context context) {
  sight::Task module{context, kChild, {double(request_.length()), double(request_.slice_bytes())}};
  context_ = module.context();
  Status status = co_await receive_all(context_);
  module.output(0, network_seconds_);
  if (!status.ok()) close();
  piece_ = {};
  const proto::RepairNode& node = request_.node();
  const Culprit child{
      .server = ServerId{node.server_id()},
      .chunk = has_chunk(node) ? ChunkId{StripeId{request_.stripe_id()}, node.index()} : ChunkId{}};
  co_return module.finish(
      status.with_context("server " + shown_server(node.name(), node.server_id())).blame(child));
}

void ChildSum::close() {
  closed_ = true;
  if (stream_) stream_->close();
}

asio::awaitable<Status> ChildSum::receive_all(Context context) {
  if (closed_) co_return Status{Code::kCancelled, "the tree failed"};
  KINTSUGI_CO_ASSIGN(runtime::Endpoint address, runtime::Endpoint::parse(request_.node().address()));
  auto stream = co_await client_.open_stream(context, address, rpc::Method::kPartialSum, request_);
  if (!stream) co_return stream.error();
  stream_ = std::move(*stream);
  if (closed_) co_return Status{Code::kCancelled, "the tree failed"};
  cursor_ = {window_.next_carried(contributor_, 0), 0};
  while (cursor_.unit < window_.units()) {
    KINTSUGI_CO_TRY(co_await receive_frame());
  }
  KINTSUGI_CO_TRY(co_await finish());
  client_.finish(address, std::move(stream_));
  co_return Status{};
}

Status ChildSum::check_frame(const proto::PartialSumData& data, uint32_t payload_bytes) const {
  if (payload_bytes == 0 && data.zero_bytes() == 0) return {};
  const SumRange& range = window_.range();
  const size_t slice = window_.slice_of(cursor_.unit);
  const uint64_t at = window_.begin_of(cursor_.unit) + cursor_.within;
  const uint64_t left = range.begin_of(slice) + range.bytes_of(slice) - at;
  const uint64_t room = window_.size().units * window_.size().unit_bytes - cursor_.within;
  if (data.offset() != range.offset + at) {
    return {Code::kInvalidArgument,
            fmt::format("partial sum of offset {} instead of {}", data.offset(), range.offset + at)};
  }
  if (payload_bytes > 0 && data.zero_bytes() > 0) {
    return {Code::kInvalidArgument, "partial sum with both a payload and zeros"};
  }
  if (payload_bytes > kMaxFrameBytes || payload_bytes % matrix_.inputs() != 0 ||
      payload_bytes / matrix_.inputs() > std::min(left, room) || data.zero_bytes() > left) {
    return {Code::kInvalidArgument, "partial sum of more bytes than its slice has"};
  }
  return {};
}

asio::awaitable<Status> ChildSum::receive_frame() {
  proto::PartialSumData data;
  proto::PartialSumDone early;
  const TimePoint asked = runtime_.clock.now();
  auto frame = co_await stream_->receive(data, early);
  network_seconds_ += to_seconds(runtime_.clock.now() - asked);
  if (!frame) co_return frame.error();
  if (frame->end) co_return Status{Code::kInvalidArgument, "the partial sum ended early"};
  KINTSUGI_CO_TRY(check_frame(data, frame->payload_bytes));
  if (frame->payload_bytes == 0) co_return co_await skip_zeros(data.zero_bytes());

  if (pace_ != nullptr) {
    const sight::Wait wait(context_, sight::WaitKind::kTimer);
    co_await pace_->pass(frame->payload_bytes);
  }
  const uint64_t bytes = frame->payload_bytes / matrix_.inputs();
  KINTSUGI_CO_ASSIGN(const uint32_t crc, co_await receive_sums(bytes));
  bytes_in_ += frame->payload_bytes;
  // The wrong bytes are in the window already, but not told to be: the cursor advances below only. The error ends
  // the tree.
  if (crc != data.crc()) {
    co_return Status{Code::kCorrupt,
                     fmt::format("partial sum of offset {}: checksum mismatch", data.offset())};
  }
  advance(bytes);
  co_return Status{};
}

asio::awaitable<Result<uint32_t>> ChildSum::receive_sums(uint64_t bytes) {
  uint32_t crc = 0;
  for (uint32_t output = 0; output < matrix_.inputs(); ++output) {
    Cursor at = cursor_;
    for (uint64_t left = bytes; left > 0; at = {at.unit + 1, 0}) {
      const uint64_t end = std::min(window_.bytes_of(at.unit), at.within + left);
      left -= end - at.within;
      KINTSUGI_CO_ASSIGN(const bool first, co_await window_.wait_turn(context_, contributor_, at.unit, end));
      KINTSUGI_CO_ASSIGN(crc, co_await receive_part(output, at.unit, at.within, end, crc, first));
    }
  }
  co_return crc;
}

asio::awaitable<Result<uint32_t>> ChildSum::receive_part(uint32_t output, size_t unit, uint64_t begin,
                                                         uint64_t end, uint32_t crc, bool first) {
  const bool in_place = first && matrix_.is_identity();
  if (!in_place && piece_.empty()) piece_ = HeldBytes(window_.held(), window_.size().piece_bytes);
  const uint64_t step = in_place ? end - begin : window_.size().piece_bytes;
  for (uint64_t at = begin; at < end; at += step) {
    const uint64_t part = std::min(step, end - at);
    std::span<std::byte> into;
    if (in_place) {
      into = window_.sums(contributor_, unit, at, at + part)[output];
    } else {
      into = piece_.span().first(part);
    }
    const TimePoint asked = runtime_.clock.now();
    KINTSUGI_CO_TRY(co_await stream_->receive_payload(into));
    const TimePoint began = runtime_.clock.now();
    network_seconds_ += to_seconds(began - asked);
    KINTSUGI_CO_TRY(window_.failure());
    crc = crc32c_combine(crc, crc32c(into), part);
    const auto sums = window_.sums(contributor_, unit, at, at + part);
    if (!in_place) {
      matrix_.add(output, into, sums, first && output == 0);
    } else if (output == 0) {
      for (size_t other = matrix_.inputs(); other < sums.size(); ++other)
        std::memset(sums[other].data(), 0, part);
    }
    compute_seconds_ += to_seconds(runtime_.clock.now() - began);
  }
  co_return crc;
}

asio::awaitable<Status> ChildSum::skip_zeros(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t end = std::min(window_.bytes_of(cursor_.unit), cursor_.within + bytes);
    bytes -= end - cursor_.within;
    auto turn = co_await window_.wait_turn(context_, contributor_, cursor_.unit, end);
    if (!turn) co_return turn.error();
    advance(end - cursor_.within);
  }
  co_return Status{};
}

void ChildSum::advance(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t unit_bytes = window_.bytes_of(cursor_.unit);
    const uint64_t end = std::min(unit_bytes, cursor_.within + bytes);
    bytes -= end - cursor_.within;
    window_.advance(contributor_, cursor_.unit, end);
    cursor_.within = end;
    if (end == unit_bytes) cursor_ = {window_.next_carried(contributor_, cursor_.unit + 1), 0};
  }
}

asio::awaitable<Status> ChildSum::finish() {
  proto::PartialSumData more;
  auto frame = co_await stream_->receive(more, done_);
  while (frame && !frame->end && frame->payload_bytes == 0 && more.zero_bytes() == 0) {
    frame = co_await stream_->receive(more, done_);
  }
  if (!frame) co_return frame.error();
  if (!frame->end) co_return Status{Code::kInvalidArgument, "the partial sum does not end"};
  proto::Empty end;
  co_return co_await stream_->send_end(end);
}

}  // namespace kintsugi::partial_sum
