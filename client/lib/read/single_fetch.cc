#include "client/lib/read/single_fetch.h"

#include <algorithm>

#include "client/lib/read/fetch_patience.h"
#include "common/base/assert.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadPart{"client.read_part", {"bytes"}};

}  // namespace

bool SingleFetch::possible(const Resources& resources, const StripeWindow& window) {
  if (window.window.wanted.size() != 1) return false;
  const proto::ChunkPlacement& place = window.placement(window.window.wanted.front());
  return place.available() && place.server_id() != 0 && !place.address().empty() &&
         window.chunk_bytes(window.window.wanted.front()) > 0 &&
         !resources.health.go_around(ServerId{place.server_id()});
}

size_t SingleFetch::buffers_needed(const StripeWindow& window) {
  return std::max<size_t>(1, Memory::buffers_for(window.chunk_bytes(window.window.wanted.front())));
}

SingleFetch::SingleFetch(Resources& resources, Context context, StripeWindow window, Lease lease)
    : resources_(resources),
      context_(context),
      window_(std::move(window)),
      lease_(std::move(lease)),
      changed_(resources.runtime) {}

SingleFetch::~SingleFetch() {
  if (!fetch_) return;
  KINTSUGI_ASSERT(fetch_->done() || !fetch_->is_receiving());
  fetch_->take_buffers();
}

asio::awaitable<Status> SingleFetch::run() {
  const sight::Task task(context_, kReadPart, {static_cast<double>(window_.window.bytes)});
  context_ = task.context();
  const uint32_t chunk = window_.window.wanted.front();
  const uint64_t begin = window_.window.chunk_begin, bytes = window_.chunk_bytes(chunk);
  ChunkRange range{window_.stripe->stripe_id(), window_.placement(chunk), begin, begin + bytes};
  const ServerId server{range.chunk.server_id()};
  resources_.hedges.earn();
  fetch_ = std::make_shared<ChunkFetch>(resources_, context_, std::move(range), changed_);
  resources_.background.spawn(ChunkFetch::run(fetch_));
  const FetchPatience patience(resources_, bytes);
  const TimePoint began = resources_.now(), late = began + patience.late;
  TimePoint wake_at = std::min(began + patience.early, context_.deadline);
  const sight::Wait wait(context_, sight::WaitKind::kJoin);
  while (!fetch_->done()) {
    if (co_await changed_.wait_until(wake_at) || fetch_->done()) continue;
    if (wake_at < late && wake_at < context_.deadline && !resources_.hedges.take()) {
      wake_at = std::min(late, context_.deadline);
      continue;
    }
    note_given_up(resources_, server, bytes, resources_.now() - began);
    fetch_->cancel();
    while (fetch_->is_receiving())
      co_await changed_.wait();
    co_return Status{Code::kUnavailable, "the server lags"};
  }
  if (!fetch_->ok()) co_return fetch_->status();
  note_fetch(resources_, server, bytes, resources_.now() - fetch_->started());
  co_return Status{};
}

std::vector<std::span<const std::byte>> SingleFetch::bytes() const {
  const erasure::Location at = erasure::locate(window_.policy, window_.window.stripe_offset);
  std::vector<std::span<const std::byte>> ranges;
  uint64_t begin = at.chunk_offset - window_.window.chunk_begin;
  for (uint64_t left = window_.window.bytes; left > 0;) {
    const uint64_t in_buffer = begin % Memory::kBufferBytes;
    const uint64_t take = std::min<uint64_t>(left, Memory::kBufferBytes - in_buffer);
    ranges.push_back(fetch_->part(begin / Memory::kBufferBytes).subspan(in_buffer, take));
    begin += take;
    left -= take;
  }
  return ranges;
}

}  // namespace kintsugi::client
