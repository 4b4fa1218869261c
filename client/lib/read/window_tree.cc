#include "client/lib/read/window_tree.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::client {
namespace {

constexpr int kPatienceFactor = 4;

using State = WindowChunks::State;

}  // namespace

WindowTree::~WindowTree() {
  KINTSUGI_ASSERT(!is_running() || buffers_.empty());
}

bool WindowTree::may_pay(const StripeWindow& of) {
  const uint64_t range = of.window.chunk_end - of.window.chunk_begin;
  return of.window.wanted.size() < of.policy.k && (of.policy.k - 1) * range >= kSavesBytes;
}

bool WindowTree::pays(const WindowChunks& chunks, uint32_t chunk) {
  const StripeWindow& of = chunks.window();
  size_t there = 0;  // without asking anybody for more
  for (uint32_t other = 0; other < of.policy.chunks(); ++other) {
    const bool coming = chunks.state(other) == State::kRunning || chunks.state(other) == State::kDone;
    there += other != chunk && (coming || of.chunk_bytes(other) == 0);
  }
  const bool in_local_group = of.policy.local > 0 && chunk < of.policy.k + of.policy.local;
  const size_t needed = in_local_group ? of.policy.k / of.policy.local : of.policy.k;
  return needed > there + 1 && (needed - there - 1) * of.chunk_bytes(chunk) >= kSavesBytes;
}

bool WindowTree::start(Context context, const WindowChunks& chunks, runtime::Event& changed) {
  if (!allowed_) return false;
  const StripeWindow& of = chunks.window();
  const auto not_here = [&chunks](uint32_t chunk) { return chunks.state(chunk) != State::kDone; };
  if (std::ranges::count_if(of.window.wanted, not_here) != 1) return false;
  const uint32_t missing = *std::ranges::find_if(of.window.wanted, not_here);
  if (!pays(chunks, missing)) return false;
  allowed_ = false;
  chunk_ = missing;
  const uint64_t bytes = of.chunk_bytes(chunk_);
  std::vector<std::span<std::byte>> into;
  for (uint64_t at = 0; at < bytes; at += Memory::kBufferBytes) {
    buffers_.push_back(resources_.memory.take());
    into.push_back(buffers_.back().first(std::min<uint64_t>(bytes - at, Memory::kBufferBytes)));
  }
  LostRange range = lost_range(*of.stripe, chunk_, of.window.chunk_begin, of.window.chunk_begin + bytes);
  const TreeWishes wishes{.window_bytes = kSumBuffers * Memory::kBufferBytes};
  fetch_ = std::make_shared<DegradedFetch>(resources_, context, std::move(range), wishes, std::move(into),
                                           changed);
  resources_.background.spawn(DegradedFetch::run(fetch_));
  return true;
}

TimePoint WindowTree::patience_end(const WindowChunks& chunks) const {
  const uint64_t bytes = chunks.window().chunk_bytes(chunk_);
  const Duration usual = resources_.fetch_times.usual(bytes).value_or(Duration{});
  return fetch_->started() + std::max(kPatience, kPatienceFactor * usual);
}

void WindowTree::settle(WindowChunks& chunks) {
  if (!fetch_ || !fetch_->done()) return;
  if (!fetch_->ok()) {
    failure_ = fetch_->status().to_string();
  } else if (chunks.state(chunk_) != State::kDone) {  // else the chunk itself was first
    chunks.put(chunk_, std::move(buffers_));
  }
  buffers_.clear();
  fetch_.reset();
}

void WindowTree::cancel() {
  if (!fetch_) return;
  fetch_->cancel();
  fetch_.reset();
  buffers_.clear();
}

}  // namespace kintsugi::client
